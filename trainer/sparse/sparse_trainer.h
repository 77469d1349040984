// The training run of sparse logistic regression, in one process or as a worker of a job: batches
// in, tests on schedule, checkpoints, a model out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "trainer/loop/early_stop.h"
#include "trainer/loop/eval_schedule.h"
#include "trainer/loop/training_state.h"
#include "trainer/model/model_file.h"
#include "trainer/run/metrics_row.h"
#include "trainer/sparse/background_test.h"
#include "trainer/sparse/batch_learner.h"
#include "trainer/sparse/sparse_backend.h"
#include "trainer/sparse/test_set.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

// What a run tells while it goes on. All are optional.
struct TrainObserver {
  std::function<Status(const MetricsRow& row)> on_test = nullptr;
  std::function<Status()> before_checkpoint = nullptr;
  // The chief of a job: before any other worker goes on, with the step that the job resumes from.
  std::function<Status(std::optional<uint64_t> resumed_step)> before_start = nullptr;
  std::function<void(const std::string& message)> on_note = nullptr;
  // About ten times a second at most.
  std::function<void(uint64_t examples, double mean_loss)> on_progress = nullptr;
  std::function<bool()> should_stop = nullptr;  // asked after each batch and while waiting
  std::function<double()> now_s = nullptr;      // a steady clock; needed
};

struct TrainSummary {
  enum class End { kDone, kEarlyStop, kStopped };
  End end = End::kDone;
  uint64_t steps = 0;
  uint64_t examples = 0;
  double seconds = 0;          // of this process
  uint64_t examples_here = 0;  // learnt by this process
  double mean_loss = 0;        // over all examples, each before it was learnt
  std::optional<MetricsRow> last_test = {};
  std::optional<JobReport> job = {};  // the chief's, and every worker's own share of it
  io::InputStats input = {};
  io::CorruptionStats corruption = {};  // records that were skipped
};

class SparseTrainer {
  struct Private {};  // only Create makes trainers

 public:
  SparseTrainer(Private, TrainOptions options, TrainObserver observer)
      : options_(std::move(options)), observer_(std::move(observer)) {}
  // Makes the model, or takes it from the newest checkpoint (resume) or a model file (warm start),
  // and opens the data.
  static Result<std::unique_ptr<SparseTrainer>> Create(TrainOptions options,
                                                       TrainObserver observer);

  // Of the checkpoint that the run goes on from, if any.
  std::optional<uint64_t> resumed_step() const { return resumed_step_; }
  Result<TrainSummary> Run();

  // Whether this process tests and saves the model.
  bool chief() const { return home_->chief(); }
  Status SaveModel(const std::string& path, ModelFormat format);
  // The last call: lets a job's servers go. Not needed for a run in one process.
  Status Leave() { return home_->Leave(); }
  const sparse::Kernels& kernels() const { return *kernels_; }
  bool direct() const { return !home_->learner().wants_compact_batches(); }
  // To be added to this process's steady clock to get that of the job.
  int64_t clock_offset_ns() const { return clock_offset_ns_; }

 private:
  Status Prepare();
  Status MakeLocalHome();
  Status JoinCluster();
  Status Restore(sparse::LocalStore& store);
  Result<bool> Advance();
  Result<bool> AdvanceHogwild();
  Status Learn(const io::CsrBatch& batch);
  Status CountLoss(double loss, double weight, uint64_t examples);
  void SyncWithJob();
  bool MayBeDue() const;
  Status TestAndCheckpoint(bool& early);
  Result<bool> TestIfDue(bool at_end);
  Result<bool> BeginTest();
  Status TakeTest();
  Result<bool> Tested(const BinaryMetrics& metrics, MetricsRow row);
  Status Checkpoint();
  Status Stop();
  Status WaitForChief();
  Status End(bool early);
  bool Stopping() const;
  Status Salvage(const Status& error);
  Status NoExamples() const;
  bool Finished() const;
  Result<bool> NextStep();
  void ShowProgress();

  TrainOptions options_;
  TrainObserver observer_;
  const sparse::Kernels* kernels_ = nullptr;
  std::unique_ptr<ModelHome> home_;
  sparse::LocalStore* local_store_ = nullptr;  // in home_, where it is
  int64_t clock_offset_ns_ = 0;
  std::unique_ptr<io::InputQueue> queue_;
  std::unique_ptr<TestSet> test_set_;
  MetricsRow tested_row_;  // of the test in the background, without its results
  BackgroundTest test_;
  std::optional<EvalSchedule> schedule_;
  std::optional<EarlyStop> early_stop_;
  TrainingState state_;  // of the whole job
  WorkerPlace place_;    // of this process
  uint64_t own_max_examples_ = 0;
  std::optional<uint64_t> resumed_step_;
  TrainSummary summary_;
  bool has_learnt_ = false;  // its part of the data
  double start_s_ = 0;
  double row_start_s_ = 0;     // when training went on after the last test
  uint64_t row_examples_ = 0;  // learnt since then
  double next_progress_s_ = 0;
  uint64_t next_checkpoint_ = 0;
};

}  // namespace millrace::trainer
