// What a net's training needs beside weights and optimizer to go on as if it had never stopped.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "io/state/state_fields.h"

namespace millrace::convnets {

struct ProgressState {
  uint64_t steps = 0;         // updates, of all workers together
  uint64_t examples = 0;      // images learnt from, by all workers
  uint64_t batches = 0;       // learnt from by this worker; also the number of its next one
  uint64_t own_examples = 0;  // images in them
  double seconds = 0;         // of training and testing so far
  // The progressive loss: sums over the images since the last row of the metrics log, and since the
  // beginning.
  double row_loss = 0;
  uint64_t row_examples = 0;
  uint64_t row_own_examples = 0;
  uint64_t row_correct = 0;  // of this worker's images
  double total_loss = 0;
  uint64_t tested_at = 0;  // as trainer::EvalSchedule has it

  void AddTo(io::StateFields& fields) const;
  static Result<ProgressState> From(const io::StateFields& fields);
};

}  // namespace millrace::convnets
