// When a training run tests its model: every `eval_every` training examples, and at the end.
#pragma once

#include <cstdint>
#include <limits>

namespace millrace::trainer {

// Depends on example counts alone, so that a resumed run tests where an undisturbed one does. A
// batch may step over a boundary; the test comes after it, and the next boundary stays where it
// was.
class EvalSchedule {
 public:
  // `eval_every` 0: at the end only. `tested_at`: from a checkpoint, what tested_at() was.
  explicit EvalSchedule(uint64_t eval_every, uint64_t tested_at = 0)
      : eval_every_(eval_every), tested_at_(tested_at) {}

  // The example count from which on a test is due.
  uint64_t next() const {
    if (eval_every_ == 0) return std::numeric_limits<uint64_t>::max();
    return (tested_at_ / eval_every_ + 1) * eval_every_;
  }
  bool Due(uint64_t examples) const { return examples >= next(); }
  // Nothing was learnt since the last test: no need for another one.
  bool DueAtEnd(uint64_t examples) const { return examples != tested_at_; }

  void Tested(uint64_t examples) { tested_at_ = examples; }
  uint64_t tested_at() const { return tested_at_; }

 private:
  uint64_t eval_every_;
  uint64_t tested_at_;
};

}  // namespace millrace::trainer
