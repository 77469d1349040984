// SPDX-License-Identifier: Apache-2.0
// Trains the models of a sweep in one pass: input, decoding and shuffling are done once. Each model
// and its metrics are those of a run of its own.
//
//   ASSIGN_OR_RETURN(auto sweep, SweepTrainer::Create(options, {.now_s = NowSeconds}));
//   ASSIGN_OR_RETURN(const TrainSummary summary, sweep->Run());
//   ASSIGN_OR_RETURN(const SweepResult result, sweep->Compare());
//   RETURN_IF_ERROR(sweep->SaveModel(result.best, "model.bin", ModelFormat::kBinary));
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "trainer/loop/training_loop.h"
#include "trainer/model/model_file.h"
#include "trainer/run/binary_metrics.h"
#include "trainer/sparse/segment_input.h"
#include "trainer/sparse/test_set.h"
#include "trainer/sparse/train_options.h"
#include "trainer/sweep/model_set.h"
#include "trainer/sweep/paired_auc.h"
#include "trainer/sweep/paired_losses.h"

namespace millrace::trainer {

struct SweepOptions {
  // They differ in their update options and in the intercept of the start. What they start with is
  // chosen (ChooseStart); there are no checkpoints during the sweep.
  std::vector<TrainOptions> models;
  // Halving: when the sweep has trained on 1, 2, 4, 8 ... times this number of examples, the worse
  // half of the models that still train is dropped, by the progressive loss since the last time,
  // until one is left. 0: none.
  uint64_t halving = 0;
  bool shares_slots = true;  // where it is possible: see ModelSet

  Status Validate() const;
};

// How the training of a model ended.
enum class SweepEnd { kDone, kEarlyStop, kDropped, kDiverged };
const char* SweepEndName(SweepEnd end);  // "done", "early_stop", "dropped", "diverged"

struct SweptModel {
  SweepEnd end = SweepEnd::kDone;
  TrainingState state;           // at its end
  std::vector<MetricsRow> rows;  // its evaluations

  double MeanLoss() const;  // over all examples, each before the model trained on it
};

// A model against the best one.
enum class SweepResultOf { kBest, kTie, kWorse, kUnknown };
struct SweepComparison {
  // A difference to the best model, and an interval that holds for all pairs of models at once
  // (SimultaneousFactor). NaN without test data.
  struct Interval {
    double difference = std::numeric_limits<double>::quiet_NaN();
    double low = std::numeric_limits<double>::quiet_NaN();
    double high = std::numeric_limits<double>::quiet_NaN();
  };
  Interval logloss, auc;
  SweepResultOf result = SweepResultOf::kUnknown;  // kTie: that of the logloss contains 0
};
const char* SweepResultName(SweepResultOf result);  // "best", "tie", "worse", ""

struct SweepResult {
  // The model with the lowest logloss on the test data; without test data, the lowest progressive
  // loss.
  size_t best = 0;
  std::vector<SweepComparison> models;
};

// All but the clock are optional.
struct SweepObserver {
  // The row of an evaluation of a model.
  std::function<Status(size_t model, const MetricsRow& row)> on_row = nullptr;
  // After on_row of all models: the one with the lowest logloss.
  std::function<Status(size_t model, const MetricsRow& row)> on_leader = nullptr;
  std::function<void(const std::string& message)> on_note = nullptr;
  // With the lowest progressive loss so far.
  std::function<void(uint64_t examples, double loss)> on_progress = nullptr;
  std::function<bool()> should_stop = nullptr;
  std::function<double()> now_s = nullptr;
};

class SweepTrainer final : private TrainingTask, private Backend {
  struct Private {};  // only Create makes trainers

 public:
  static Result<std::unique_ptr<SweepTrainer>> Create(SweepOptions options, SweepObserver observer);
  SweepTrainer(Private, SweepOptions options, SweepObserver observer);

  // To be called once.
  Result<TrainSummary> Run();
  // After Run. Reads the test data once more if there were evaluations during the training.
  Result<SweepResult> Compare();
  // Of a model that was not dropped; after Run.
  Status SaveModel(size_t model, const std::string& path, ModelFormat format,
                   io::AtPath at_path = io::AtPath::kFollow);
  // A checkpoint of it, from which a run of its own continues.
  Status SaveState(size_t model, const std::string& checkpoints);
  std::vector<std::string> Warnings(size_t model, const TrainSummary& summary);

  const std::vector<SweptModel>& models() const { return models_; }
  bool has_model(size_t model) const { return models_[model].end != SweepEnd::kDropped; }
  bool shares_slots() const { return set_->shares(); }
  bool direct() const { return !set_->wants_compact_batches(); }
  io::InputStats input() const { return input_->stats(); }

 private:
  // Of a model, besides what SweptModel tells.
  struct Track {
    EarlyStop early_stop = EarlyStop(EarlyStopRule());
    double window_loss = 0, window_weight = 0;  // since the last halving
    BinaryMetricsSum test = BinaryMetricsSum();
    std::vector<NamedValue> metrics = {};
  };

  Status Prepare();
  bool active(size_t model) const { return set_->active(model); }
  Result<std::optional<StepResult>> Step(TrainingState& state, uint64_t until) override;
  Status TakeLosses(double weight);
  void EndModel(size_t model, SweepEnd end);
  void Halve();
  bool has_test_data() const override { return test_set_ != nullptr; }
  Evaluation Evaluate(const TrainingState& state) override;
  Result<std::vector<NamedValue>> ScoreAll();
  Status ScoreTestSet(bool counts_metrics);
  Status TakeRow(const MetricsRow& common);
  double Epoch(const TrainingState& state) const override;
  // Nothing is kept during the sweep.
  Status Checkpoint(const TrainingState&) override { return {}; }
  void CopyShared(TrainingState& to) const;
  size_t Leader() const;
  size_t BestModel() const;
  double LowestLoss() const;
  Result<sparse::LocalStore*> StoreOf(size_t model);

  const SweepOptions options_;
  const SweepObserver observer_;
  std::unique_ptr<ModelSet> set_;
  std::vector<SweptModel> models_;
  std::vector<Track> tracks_;
  std::vector<double> losses_;  // of the last step
  StepResult uncounted_;        // the step that the loop does not count yet
  uint64_t next_halving_;
  uint64_t max_examples_;
  std::unique_ptr<SegmentInput> input_;
  std::unique_ptr<TestSet> test_set_;
  // Of the last evaluation, between all models that it scored:
  std::optional<PairedLosses> pairs_;
  std::optional<PairedAuc> paired_auc_;
  std::vector<size_t> compared_;  // these
  std::unique_ptr<TrainingLoop> loop_;
};

}  // namespace millrace::trainer
