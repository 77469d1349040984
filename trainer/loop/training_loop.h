// SPDX-License-Identifier: Apache-2.0
// The training run of any model, in one process or as a worker of a job: steps until the data ends,
// evaluation on schedule, checkpoints, early stop, reaction to stop requests.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "trainer/loop/backend.h"
#include "trainer/loop/early_stop.h"
#include "trainer/loop/eval_schedule.h"
#include "trainer/loop/training_state.h"
#include "trainer/run/metrics_row.h"

namespace millrace::trainer {

// The metrics of an evaluation, which may be under way in another thread. A deferred one is
// computed by get().
using Evaluation = std::future<Result<std::vector<NamedValue>>>;

// The model of a run: trains a step, and evaluates. Not thread-safe.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // Trains on the next batch and moves `state.own` past it; nullopt at the end of the data. A step
  // of several batches ends when the run has trained on `until` examples. kCancelled if a stop was
  // requested and the step is blocked.
  virtual Result<std::optional<StepResult>> Step(TrainingState& state, uint64_t until) = 0;

  virtual bool has_test_data() const = 0;
  // Starts an evaluation of the current model.
  virtual Evaluation Evaluate(const TrainingState& state) = 0;
  // For the row of an evaluation.
  virtual double Epoch(const TrainingState& state) const = 0;
};

// Callbacks of a run. All but the clock are optional.
struct TrainObserver {
  // The row of an evaluation is the best so far by options.early_stop; comes before on_evaluation.
  // The model is the evaluated one, unless other workers train on without waiting for this process.
  std::function<Status(const MetricsRow& row)> on_best = nullptr;
  std::function<Status(const MetricsRow& row)> on_evaluation = nullptr;
  std::function<Status()> before_checkpoint = nullptr;
  std::function<void(const std::string& message)> on_note = nullptr;
  // About ten times a second at most.
  std::function<void(uint64_t examples, double mean_loss)> on_progress = nullptr;
  std::function<bool()> should_stop = nullptr;  // called after each step and while waiting
  std::function<double()> now_s = nullptr;      // a steady clock; called after each step
};

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct LoopOptions {
  uint64_t max_own_examples = kNoLimit;  // that this process trains on
  uint64_t eval_every = 0;  // training examples between evaluations; 0: at the end only
  EarlyStopRule early_stop = {};
  bool writes_checkpoints = false;  // there is a folder for them
  uint64_t checkpoint_every = 0;    // training examples; 0: only when stopped
};

// A worker's part of the `max_examples` of all workers together; 0: no limit.
uint64_t OwnExamples(uint64_t max_examples, uint64_t worker, uint64_t num_workers);

struct TrainSummary {
  enum class End { kDone, kEarlyStop, kStopped };
  End end = End::kDone;
  uint64_t steps = 0;
  uint64_t examples = 0;
  uint64_t new_examples = 0;  // of them, since the start or resume of this process
  uint64_t own_examples = 0;  // of the new ones, trained on by this process
  double seconds = 0;         // of this process
  double train_seconds = 0;   // of them, without evaluation and checkpoints
  double mean_loss = 0;       // over all examples, each before the model trained on it
  std::optional<MetricsRow> last_row = {};
  TrainingState state = {};  // at the end
};

class TrainingLoop {
 public:
  // Task and backend outlive the loop.
  TrainingLoop(LoopOptions options, TrainObserver observer, TrainingTask& task, Backend& backend,
               TrainingState start);

  // Call it once.
  Result<TrainSummary> Run();

  // Writes a checkpoint of the end of the run, unless the last one is of the same step. After Run.
  Status SaveState();

  const TrainingState& state() const { return state_; }

 private:
  Result<bool> NextStep();
  Status EvaluateAndCheckpoint();
  bool StopRequested() const { return observer_.should_stop && observer_.should_stop(); }
  Result<bool> HandleStop(const Status& step);
  Status StopTraining();
  Status End();
  Status EvaluateAtEnd();
  Status Evaluate();
  Status TakeEvaluation();
  void CountLogloss(const MetricsRow& row);
  MetricsRow NextRow() const;
  void StartRow();
  Status KeepTrained(const Status& error);
  Status Checkpoint();
  void CountTime();
  void SkipTime() { counted_s_ = observer_.now_s(); }
  void ShowProgress();
  TrainSummary Summary() const;

  const LoopOptions options_;
  const TrainObserver observer_;
  TrainingTask& task_;
  Backend& backend_;
  const bool evaluates_;
  TrainingState state_;
  EvalSchedule schedule_;
  EarlyStop early_stop_;
  TrainSummary summary_;

  Evaluation evaluation_;            // valid: its result is pending
  MetricsRow pending_row_;           // of evaluation_, without its metrics
  const uint64_t checkpoint_every_;  // 0: not by this process
  uint64_t next_checkpoint_;
  std::optional<uint64_t> saved_step_;  // of the last checkpoint
  bool own_data_done_ = false;          // this process has trained on its part
  bool stops_early_ = false;
  double stop_deadline_s_ = 0;  // of a worker that was asked to stop; 0: it was not

  const double earlier_seconds_;
  const uint64_t earlier_examples_, earlier_own_examples_;
  double start_s_ = 0;
  double counted_s_ = 0;    // until then CountTime has counted
  double row_seconds_ = 0;  // of training since the last row
  uint64_t row_begin_examples_;
  double next_progress_s_ = 0;
};

// The error of a step whose loss is not finite. `step` and `example` count from 1.
Status Diverged(uint64_t step, uint64_t example, double loss, double rate);

}  // namespace millrace::trainer
