// SPDX-License-Identifier: Apache-2.0
// The state that a training run needs, in addition to the model, to resume exactly.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_options.h"
#include "io/state/state_fields.h"
#include "trainer/loop/early_stop.h"
#include "trainer/run/run_info.h"

namespace millrace::trainer {

// A part of the data that a process has yet to train on: a shard of it, from a position on.
struct StreamSegment {
  uint64_t shard = 0;
  uint64_t num_shards = 1;
  io::InputPosition position = {};  // behind the last batch
  uint64_t end_epoch = kNoEnd;      // the first epoch that does not belong to it

  static constexpr uint64_t kNoEnd = ~uint64_t{0};
};

// The position of one process in its own part of the data.
struct ResumePoint {
  uint64_t batches = 0;
  uint64_t examples = 0;
  uint64_t input_fingerprint = 0;  // of the files that the segments belong to
  // In order; the first is the present one. The last one has no end. A process that has started
  // with its job has only that one. Nets have none.
  std::vector<StreamSegment> segments = {};

  // Little-endian, all numbers of 8 bytes: batches, examples, fingerprint, and for each segment
  // shard, num_shards, epoch, rows, digest and end_epoch.
  std::string Encode() const;
  static Result<ResumePoint> Decode(const std::string& bytes);
};

// The resume points of `workers` processes that continue the work of those whose encoded points are
// `earlier` (empty: it has not started). What is left of an earlier stream i up to the end of the
// furthest epoch that any process has reached goes to process i mod `workers`; the next epoch is
// divided among the new processes. So no row is lost or comes twice.
Result<std::vector<ResumePoint>> DivideStreams(const std::vector<std::string>& earlier,
                                               uint64_t workers);

struct TrainingState {
  // Sums over all processes that train the model together.
  uint64_t steps = 0;     // updates of the model
  uint64_t examples = 0;  // trained on
  double seconds = 0;     // of training and evaluation

  ResumePoint own = {};  // of this process

  // The progressive loss: sums over the examples since the last row of the metrics log, and since
  // the beginning.
  double row_loss = 0, row_weight = 0;
  double total_loss = 0, total_weight = 0;
  // The examples of this process since the last row, and how many of them the model classified
  // correctly before it trained on them. Only nets count them.
  uint64_t row_own_examples = 0, row_own_correct = 0;
  // Over the examples of this process since the beginning: the weight of all, and of those with a
  // positive label. Nets do not count them.
  double own_weight = 0, own_positive = 0;

  uint64_t evaluations = 0;   // rows of the metrics log
  uint64_t evaluated_at = 0;  // see EvalSchedule
  EarlyStopState early_stop = {};
  // The evaluation with the lowest test logloss so far, and the progressive loss of its row.
  double lowest_logloss = std::numeric_limits<double>::quiet_NaN();
  uint64_t lowest_logloss_step = 0;
  double lowest_logloss_loss = 0;
};

// The best evaluation so far, for run.json.
std::optional<BestEvaluation> BestOf(const TrainingState& state);

void AddTrainingState(const TrainingState& state, io::StateFields& fields);
Result<TrainingState> TrainingStateFrom(const io::StateFields& fields);

// The same as text, for the servers of a job.
std::string EncodeTrainingState(const TrainingState& state);
Result<TrainingState> DecodeTrainingState(const std::string& text);

// The start of a run: the beginning of the data, or a checkpoint.
struct TrainingStart {
  TrainingState state = {};
  std::optional<uint64_t> resumed_step = {};  // of the checkpoint; none: at the beginning
};

}  // namespace millrace::trainer
