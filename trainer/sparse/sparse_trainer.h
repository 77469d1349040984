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

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "trainer/loop/training_loop.h"
#include "trainer/model/model_file.h"
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
  Status SaveModel(const std::string& path, ModelFormat format,
                   io::AtPath at_path = io::AtPath::kFollow);

  // Mean loss of this process's rows in the current epoch, each before its step. From the second
  // epoch on the model has seen the rows before: a test loss far above it is a sign of overfitting.
  double epoch_loss() const { return epoch_weight_ > 0 ? epoch_loss_ / epoch_weight_ : 0; }
  uint64_t epochs() const { return loop_->state().own.position.epoch + 1; }

  const sparse::Kernels& kernels() const { return *kernels_; }
  // Steps work on the model's own memory, without compacted batches.
  bool direct() const { return !backend_->learner().wants_compact_batches(); }
  io::InputStats input() const { return queue_->stats(); }
  io::CorruptionStats corruption() const { return queue_->corruption(); }  // skipped records

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

  TrainOptions options_;
  const sparse::Kernels* kernels_ = nullptr;
  std::unique_ptr<SparseBackend> own_backend_;  // null: the caller's
  SparseBackend* backend_ = nullptr;
  uint64_t max_own_examples_ = kNoLimit;
  std::unique_ptr<io::InputQueue> queue_;
  std::unique_ptr<TestSet> test_set_;
  std::unique_ptr<TrainingLoop> loop_;
  double epoch_loss_ = 0, epoch_weight_ = 0;
};

}  // namespace millrace::trainer
