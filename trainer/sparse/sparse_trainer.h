// SPDX-License-Identifier: Apache-2.0
// The training run of sparse logistic regression.
//
//   ASSIGN_OR_RETURN(auto trainer, SparseTrainer::Create(options, {.now_s = NowSeconds}));
//   ASSIGN_OR_RETURN(const TrainSummary summary, trainer->Run());
//   RETURN_IF_ERROR(trainer->SaveModel("model.bin", ModelFormat::kBinary));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "trainer/loop/training_loop.h"
#include "trainer/model/model_file.h"
#include "trainer/run/run_warnings.h"
#include "trainer/sparse/segment_input.h"
#include "trainer/sparse/sparse_backend.h"
#include "trainer/sparse/test_set.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

class SparseTrainer final : private TrainingTask {
  struct Private {};  // only Create makes trainers

 public:
  // Opens the data. `backend` has the model and outlives the trainer; null: the trainer makes a
  // LocalBackend.
  static Result<std::unique_ptr<SparseTrainer>> Create(TrainOptions options, TrainObserver observer,
                                                       SparseBackend* backend = nullptr);
  SparseTrainer(Private, TrainOptions options) : options_(std::move(options)) {}

  // The step of the checkpoint that the run resumes from, if any.
  std::optional<uint64_t> resumed_step() const { return backend_->start().resumed_step; }
  // To be called once.
  Result<TrainSummary> Run();
  // A checkpoint of the end of the run, if there is a folder for it: for a later run that continues
  // from this one, or resumes it with more data. After Run.
  Status SaveState() { return loop_->SaveState(); }
  // Also during the run, in on_best.
  Status SaveModel(const std::string& path, ModelFormat format,
                   io::AtPath at_path = io::AtPath::kFollow);
  // After Run, with its result. Only the chief knows the whole run; another worker has the warnings
  // about its own input.
  std::vector<std::string> Warnings(const TrainSummary& summary);

  const sparse::Kernels& kernels() const { return *kernels_; }
  // Steps work on the model's own memory, without compacted batches.
  bool direct() const { return !backend_->learner().wants_compact_batches(); }
  io::InputStats input() const { return input_->stats(); }
  // About how many examples the run will have trained on at its end, by the bytes of the training
  // files; 0: unknown, because they are compressed or no regular files.
  uint64_t EstimateExamples();
  io::CorruptionStats corruption() const { return input_->corruption(); }  // skipped records

 private:
  Status Prepare(TrainObserver observer, SparseBackend* backend);
  Status OpenInput(TrainingState& start);

  Result<std::optional<StepResult>> Step(TrainingState& state, uint64_t until) override;
  Result<std::optional<StepResult>> BatchStep(TrainingState& state);
  Result<std::optional<StepResult>> HogwildStep(TrainingState& state, uint64_t until);
  bool has_test_data() const override { return test_set_ != nullptr; }
  Evaluation Evaluate(const TrainingState& state) override;
  double Epoch(const TrainingState& state) const override;
  Status NoExamples() const;
  Status CountUnknownKeys(RunFacts& facts);

  TrainOptions options_;
  const sparse::Kernels* kernels_ = nullptr;
  std::unique_ptr<SparseBackend> own_backend_;  // null: the caller's
  SparseBackend* backend_ = nullptr;
  uint64_t max_own_examples_ = kNoLimit;
  std::optional<uint64_t> train_bytes_;    // of all training files; 0: unknown
  uint64_t estimated_epoch_examples_ = 0;  // 0: unknown yet
  std::unique_ptr<SegmentInput> input_;
  io::InputPosition start_position_;  // of the first segment, when this process started
  std::unique_ptr<TestSet> test_set_;
  std::unique_ptr<TrainingLoop> loop_;
  // Progressive, of this process in the present epoch.
  RunFacts value_facts_;  // only those of values
  uint64_t loss_epoch_ = 0;
  double epoch_loss_ = 0, epoch_weight_ = 0;
};

}  // namespace millrace::trainer
