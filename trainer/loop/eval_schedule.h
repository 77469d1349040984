// SPDX-License-Identifier: Apache-2.0
// When a training run evaluates its model: every `eval_every` training examples, and at the end.
#pragma once

#include <cstdint>
#include <limits>

namespace millrace::trainer {

// Depends on example counts alone, so that a resumed run evaluates where an undisturbed one does. A
// batch may step over a boundary; the evaluation comes after it, and the next boundary stays where
// it was.
class EvalSchedule {
 public:
  // `eval_every` 0: at the end only. `evaluated_at`: from a checkpoint, what evaluated_at() was.
  explicit EvalSchedule(uint64_t eval_every, uint64_t evaluated_at = 0)
      : eval_every_(eval_every), evaluated_at_(evaluated_at) {}

  // The example count from which on an evaluation is due.
  uint64_t next() const {
    if (eval_every_ == 0) return std::numeric_limits<uint64_t>::max();
    return (evaluated_at_ / eval_every_ + 1) * eval_every_;
  }
  bool Due(uint64_t examples) const { return examples >= next(); }
  // False if the model is as it was at the last evaluation.
  bool DueAtEnd(uint64_t examples) const { return examples != evaluated_at_; }

  void Evaluated(uint64_t examples) { evaluated_at_ = examples; }
  uint64_t evaluated_at() const { return evaluated_at_; }

 private:
  uint64_t eval_every_;
  uint64_t evaluated_at_;
};

}  // namespace millrace::trainer
