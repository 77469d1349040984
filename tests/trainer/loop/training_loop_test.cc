// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/training_loop.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace millrace::trainer {
namespace {

constexpr uint64_t kBatch = 10;

// Batches of ten examples whose loss falls; `log` has what the loop called, in order.
class FakeTask final : public TrainingTask {
 public:
  explicit FakeTask(std::string& log, uint64_t batches) : log_(log), batches_(batches) {}

  Result<std::optional<StepResult>> Step(TrainingState& state, uint64_t until) override {
    EXPECT_GT(until, state.examples);
    if (cancelled_steps > 0) {
      --cancelled_steps;
      log_ += "cancelled ";
      return Cancelled("no input");
    }
    if (state.own.batches == batches_) return std::optional<StepResult>();
    log_ += "step ";
    ++state.own.batches;
    state.own.examples += kBatch;
    return std::optional(
        StepResult{.steps = 1, .examples = kBatch, .loss = 10 * kBatch, .weight = kBatch});
  }
  bool has_test_data() const override { return true; }
  Evaluation Evaluate(const TrainingState&) override {
    log_ += "evaluate ";
    if (!background) {
      return std::async(std::launch::deferred, [this] { return Metrics(); });
    }
    started = std::promise<Result<std::vector<NamedValue>>>();
    return started.get_future();
  }
  Result<std::vector<NamedValue>> Metrics() {
    if (!error.ok()) return error;
    return std::vector<NamedValue>{{"auc", aucs.empty() ? auc : aucs[next_auc_++]}};
  }
  double Epoch(const TrainingState&) const override { return 1; }

  int cancelled_steps = 0;
  bool background = false;
  std::promise<Result<std::vector<NamedValue>>> started;
  double auc = 0.5;
  std::vector<double> aucs;  // of one evaluation after the other; empty: `auc`
  Status error;

 private:
  std::string& log_;
  uint64_t batches_;
  size_t next_auc_ = 0;
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(std::string& log, uint64_t worker = 0, uint64_t num_workers = 1)
      : log_(log), worker_(worker), num_workers_(num_workers) {}

  uint64_t worker() const override { return worker_; }
  uint64_t num_workers() const override { return num_workers_; }
  bool remote() const override { return num_workers_ > 1; }
  Status Stop() override {
    log_ += "stop ";
    return {};
  }
  bool stopped() const override { return is_stopped; }
  Result<bool> WaitForStop() override {
    log_ += "wait ";
    is_stopped = --waits == 0;
    return waits >= 0;
  }
  Result<bool> EmptyStep(const ResumePoint&, uint64_t) override {
    if (empty_steps == 0) return false;
    --empty_steps;
    log_ += "empty ";
    return true;
  }
  Status Finish() override {
    log_ += "finish ";
    return {};
  }
  Status Checkpoint(const TrainingState& state) override {
    log_ += "checkpoint" + std::to_string(state.examples) + " ";
    saved = state;
    return {};
  }

  bool is_stopped = false;
  int empty_steps = 0;
  int waits = 0;
  TrainingState saved;

 private:
  std::string& log_;
  uint64_t worker_, num_workers_;
};

class TrainingLoopTest : public testing::Test {
 protected:
  Result<TrainSummary> Run(FakeTask& task, FakeBackend& backend, TrainingState start = {}) {
    TrainObserver observer;
    observer.now_s = [this] { return clock_s_ += seconds_a_call_; };
    observer.should_stop = [this] { return ++asked_ > stop_after_; };
    observer.on_best = [this](const MetricsRow& row) {
      log_ += "best" + std::to_string(row.examples) + " ";
      return best_status_;
    };
    observer.on_evaluation = [this](const MetricsRow& row) {
      rows_.push_back(row);
      log_ += "row" + std::to_string(row.examples) + " ";
      return Status();
    };
    return TrainingLoop(options_, observer, task, backend, std::move(start)).Run();
  }

  LoopOptions options_;
  std::string log_;
  std::vector<MetricsRow> rows_;
  Status best_status_;  // of on_best
  double clock_s_ = 0, seconds_a_call_ = 0.25;
  int asked_ = 0, stop_after_ = std::numeric_limits<int>::max();
};

TEST_F(TrainingLoopTest, EvaluatesOnScheduleBeforeTheCheckpointAndAtTheEnd) {
  options_ = {.eval_every = 20, .writes_checkpoints = true, .checkpoint_every = 20};
  FakeTask task(log_, 3);
  FakeBackend backend(log_);
  const auto summary = Run(task, backend);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_, "step step evaluate row20 checkpoint20 step finish evaluate row30 ");
  EXPECT_EQ(summary->end, TrainSummary::End::kDone);
  EXPECT_EQ(summary->steps, 3u);
  EXPECT_EQ(summary->examples, 30u);
  EXPECT_EQ(summary->mean_loss, 10);
  EXPECT_EQ(rows_[0].loss, 10);
  EXPECT_EQ(rows_[1].Metric("auc"), 0.5);
  EXPECT_LT(summary->train_seconds, summary->seconds);
}

TEST_F(TrainingLoopTest, ResumedRunIsCountedFromItsCheckpoint) {
  options_ = {.eval_every = 20, .writes_checkpoints = true, .checkpoint_every = 30};
  FakeTask task(log_, 5);
  FakeBackend backend(log_);
  ASSERT_TRUE(Run(task, backend).ok());
  log_.clear();
  const auto summary = Run(task, backend, backend.saved);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_, "step evaluate row40 step finish evaluate row50 ");
  EXPECT_EQ(summary->examples, 50u);
  EXPECT_EQ(summary->new_examples, 20u);
}

TEST_F(TrainingLoopTest, StopRequestLeavesACheckpoint) {
  options_.writes_checkpoints = true;
  stop_after_ = 2;
  FakeTask task(log_, 9);
  FakeBackend backend(log_);
  const auto summary = Run(task, backend);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_, "step step step stop checkpoint30 ");
  EXPECT_EQ(summary->end, TrainSummary::End::kStopped);
}

TEST_F(TrainingLoopTest, CancelledStepWithoutAStopRequestIsAnError) {
  FakeTask task(log_, 9);
  task.cancelled_steps = 1;
  FakeBackend backend(log_);
  EXPECT_EQ(Run(task, backend).status().code(), Code::kCancelled);
}

TEST_F(TrainingLoopTest, ExamplesAreLimited) {
  options_.max_own_examples = OwnExamples(25, 0, 1);
  FakeTask task(log_, 9);
  FakeBackend backend(log_);
  EXPECT_EQ(Run(task, backend)->examples, 30u);
  EXPECT_EQ(OwnExamples(0, 0, 3), kNoLimit);
  EXPECT_EQ(OwnExamples(5, 1, 3), 2u);
  EXPECT_EQ(OwnExamples(5, 2, 3), 1u);
  EXPECT_EQ(OwnExamples(2, 2, 3), 0u);
}

TEST_F(TrainingLoopTest, EarlyStopEndsTheJob) {
  options_ = {.eval_every = 10, .early_stop = *ParseEarlyStop("auc:1")};
  FakeTask task(log_, 9);
  FakeBackend backend(log_);
  const auto summary = Run(task, backend);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_, "step evaluate best10 row10 step evaluate row20 stop finish ");
  EXPECT_EQ(summary->end, TrainSummary::End::kEarlyStop);
  EXPECT_EQ(summary->state.early_stop.best_step, 1u);
}

TEST_F(TrainingLoopTest, BestModelIsThatOfTheEvaluation) {
  options_ = {.eval_every = 10,
              .early_stop = *ParseSaveBest("auc"),
              .writes_checkpoints = true,
              .checkpoint_every = 20};
  FakeTask task(log_, 4);
  task.aucs = {.5, .4, .7, .6};
  FakeBackend backend(log_);
  auto summary = Run(task, backend);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_,
            "step evaluate best10 row10 step evaluate row20 checkpoint20 step evaluate best30 "
            "row30 step evaluate row40 checkpoint40 finish ");
  EXPECT_EQ(summary->end, TrainSummary::End::kDone);
  EXPECT_EQ(BestOf(summary->state)->step, 3u);
  EXPECT_EQ(BestOf(summary->state)->examples, 30u);
  EXPECT_EQ(BestOf(summary->state)->metrics, "{\"auc\":0.7}");

  // A run that resumes from step 4 knows the best of the part before.
  log_.clear();
  task.aucs = {};
  summary = Run(task, backend, backend.saved);
  EXPECT_EQ(log_, "finish ");
  EXPECT_EQ(BestOf(summary->state)->step, 3u);
}

// The checkpoint that keeps the training does not count a best model that was not saved.
TEST_F(TrainingLoopTest, BestModelThatCannotBeSavedIsNotTheBest) {
  options_ = {.eval_every = 10, .early_stop = *ParseSaveBest("auc"), .writes_checkpoints = true};
  FakeTask task(log_, 4);
  FakeBackend backend(log_);
  best_status_ = Status(Code::kIo, "disk full");
  const auto summary = Run(task, backend);
  EXPECT_TRUE(summary.status().message().starts_with("disk full (the checkpoint of step 1 "))
      << summary.status().message();
  EXPECT_EQ(log_, "step evaluate best10 checkpoint10 ");
  EXPECT_EQ(backend.saved.early_stop.best_step, 0u);
}

TEST_F(TrainingLoopTest, StepsContinueDuringABackgroundEvaluation) {
  options_ = {.eval_every = 10, .writes_checkpoints = true, .checkpoint_every = 30};
  FakeTask task(log_, 3);
  task.background = true;
  FakeBackend backend(log_);
  TrainObserver observer;
  observer.now_s = [this] { return clock_s_ += 1; };
  observer.on_progress = [&](uint64_t examples, double) {
    if (examples == 20) task.started.set_value(task.Metrics());
  };
  observer.on_evaluation = [&](const MetricsRow& row) {
    log_ += "row" + std::to_string(row.examples) + " ";
    task.background = false;
    return Status();
  };
  options_.eval_every = 15;
  ASSERT_TRUE(TrainingLoop(options_, observer, task, backend, {}).Run().ok());
  EXPECT_EQ(log_, "step step evaluate step row20 evaluate row30 checkpoint30 finish ");
}

TEST_F(TrainingLoopTest, FailedEvaluationKeepsTheTrainingInACheckpoint) {
  options_ = {.eval_every = 20, .writes_checkpoints = true};
  FakeTask task(log_, 9);
  task.error = Corrupt("bad test data");
  FakeBackend here(log_);
  EXPECT_EQ(Run(task, here).status().message(),
            "bad test data (the checkpoint of step 2 keeps the training so far: the run can be "
            "resumed from it)");
  EXPECT_EQ(here.saved.evaluated_at, 0u) << "the resumed run evaluates again";
  FakeBackend on_servers(log_, 0, 2);
  EXPECT_EQ(Run(task, on_servers).status().message(), "bad test data");
}

TEST_F(TrainingLoopTest, ChiefGoesOnWithEmptySteps) {
  FakeTask task(log_, 1);
  FakeBackend backend(log_, 0, 2);
  backend.empty_steps = 2;
  ASSERT_TRUE(Run(task, backend).ok());
  EXPECT_EQ(log_, "step empty empty finish evaluate row10 ");
}

TEST_F(TrainingLoopTest, AnotherWorkerNeitherEvaluatesNorWritesCheckpoints) {
  options_ = {.eval_every = 10, .writes_checkpoints = true, .checkpoint_every = 10};
  FakeTask task(log_, 2);
  FakeBackend backend(log_, 1, 2);
  EXPECT_EQ(Run(task, backend)->end, TrainSummary::End::kDone);
  EXPECT_EQ(log_, "step step finish ");
}

TEST_F(TrainingLoopTest, AskedWorkerTrainsUntilTheChiefStopsTheJob) {
  stop_after_ = 0;
  FakeTask task(log_, 1000);
  task.cancelled_steps = 2;
  FakeBackend backend(log_, 1, 2);
  backend.waits = 2;
  const auto summary = Run(task, backend);
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(log_, "cancelled wait cancelled wait finish ");
  EXPECT_EQ(summary->end, TrainSummary::End::kStopped);
}

TEST_F(TrainingLoopTest, AskedWorkerLeavesWhenTheChiefDoesNotStopTheJobInTime) {
  stop_after_ = 0;
  seconds_a_call_ = 3;
  FakeTask task(log_, 1000);
  FakeBackend backend(log_, 1, 2);
  const Status status = Run(task, backend).status();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ(status.message(), "interrupted: this worker leaves its job");
  EXPECT_EQ(log_, "step step step step ") << "for eight seconds";
}

TEST_F(TrainingLoopTest, AskedWorkerWhoseJobIsOverFinishes) {
  stop_after_ = 0;
  FakeTask task(log_, 2);
  FakeBackend backend(log_, 1, 2);
  EXPECT_EQ(Run(task, backend)->end, TrainSummary::End::kDone);
  EXPECT_EQ(log_, "step step finish ");
}

}  // namespace
}  // namespace millrace::trainer
