// What a training run needs beside the model to go on as if it had never stopped.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "io/state/state_fields.h"
#include "trainer/loop/early_stop.h"

namespace millrace::trainer {

struct TrainingState {
  uint64_t steps = 0;     // batches learnt from
  uint64_t examples = 0;  // examples learnt from
  double seconds = 0;     // of training and testing so far
  io::InputPosition position = {};
  uint64_t input_fingerprint = 0;  // of the files that `position` belongs to

  // The progressive loss: sums over the examples since the last row of the metrics log, and since
  // the beginning.
  double row_loss = 0, row_weight = 0;
  double total_loss = 0, total_weight = 0;

  uint64_t tests = 0;      // rows of the metrics log
  uint64_t tested_at = 0;  // as EvalSchedule has it
  EarlyStopState early_stop = {};
  std::string options_digest = {};  // of options that must not change; the caller's, one line
};

void AddTrainingState(const TrainingState& state, io::StateFields& fields);
Result<TrainingState> TrainingStateFrom(const io::StateFields& fields);

}  // namespace millrace::trainer
