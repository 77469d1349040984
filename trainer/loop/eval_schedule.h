// SPDX-License-Identifier: Apache-2.0
// The schedule of evaluations: every `eval_every` training examples, and at the end.
#pragma once

#include <cstdint>
#include <limits>

namespace millrace::trainer {

// Depends on example counts alone, so that a resumed run evaluates where an uninterrupted one does.
// If a batch crosses a boundary, the evaluation follows the batch; the next boundary does not move.
class EvalSchedule {
 public:
  // `eval_every` 0: at the end only. `evaluated_at`: evaluated_at() when the checkpoint was
  // written.
  explicit EvalSchedule(uint64_t eval_every, uint64_t evaluated_at = 0)
      : eval_every_(eval_every), evaluated_at_(evaluated_at) {}

  // The example count from which on an evaluation is due.
  uint64_t next() const {
    if (eval_every_ == 0) return std::numeric_limits<uint64_t>::max();
    return (evaluated_at_ / eval_every_ + 1) * eval_every_;
  }
  bool Due(uint64_t examples) const { return examples >= next(); }
  // False if the model has not changed since the last evaluation.
  bool DueAtEnd(uint64_t examples) const { return examples != evaluated_at_; }

  void Evaluated(uint64_t examples) { evaluated_at_ = examples; }
  uint64_t evaluated_at() const { return evaluated_at_; }

 private:
  uint64_t eval_every_;
  uint64_t evaluated_at_;
};

}  // namespace millrace::trainer
