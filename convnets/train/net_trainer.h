// SPDX-License-Identifier: Apache-2.0
// The training run of a net.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convnets/input/batch_source.h"
#include "convnets/input/image_set.h"
#include "convnets/net/net.h"
#include "convnets/train/net_backend.h"
#include "convnets/train/net_file.h"
#include "io/base/status.h"
#include "io/record/output_file.h"
#include "sparse/dense_options.h"
#include "trainer/loop/training_loop.h"
#include "trainer/run/metrics_row.h"

namespace millrace::convnets {

struct NetTrainOptions {
  NetOptions net;
  std::string engine = "auto";
  Init init = Init::kHe;
  sparse::DenseOptions update;
  size_t batch_size = 64;
  uint64_t epochs = 1;
  uint64_t max_examples = 0;  // 0: all epochs
  uint64_t eval_every = 0;    // training images between evaluations; 0: after each epoch
  trainer::EarlyStopRule early_stop = {};  // which evaluation is the best
  size_t threads = 1;                      // that compute
  size_t input_threads = 1;                // that decode images
  uint64_t seed = 1;
  std::string model_in;           // start from this model's weights
  std::string checkpoints;        // folder; empty: none are written
  uint64_t checkpoint_every = 0;  // training images; 0: only when stopped
  bool resume = false;
  // This process's part of each epoch where several train together.
  size_t worker = 0, workers = 1;

  Status Validate() const;
  // The batches of this worker in a whole run over a training set of `images` images.
  uint64_t Batches(size_t images) const;
};

class NetTrainer final : private trainer::TrainingTask {
  struct Private {};  // only Create makes trainers

 public:
  // Makes the net, or takes it from the newest checkpoint (resume) or a model. The image sets
  // outlive the trainer; without `test` nothing is evaluated. `backend` has the parameters and
  // outlives the trainer; null: the trainer makes a LocalNetBackend.
  static Result<std::unique_ptr<NetTrainer>> Create(const NetTrainOptions& options,
                                                    const ImageSet& train, const ImageSet* test,
                                                    trainer::TrainObserver observer,
                                                    NetBackend* backend = nullptr);
  NetTrainer(Private, const NetTrainOptions& options, const ImageSet& train, const ImageSet* test,
             NetSpec spec);

  // The step of the checkpoint that the run resumes from, if any.
  std::optional<uint64_t> resumed_step() const { return resumed_step_; }
  // Call it once.
  Result<trainer::TrainSummary> Run() { return loop_->Run(); }
  // The weights alone, with the net's name and shape, and how its images were preprocessed.
  Status SaveModel(const std::string& path, const ImageOptions& images, io::AtPath at_path) const;

  const NetSpec& spec() const { return spec_; }
  const Net& net() const { return *net_; }
  double input_wait_seconds() const { return batches_->wait_seconds(); }

 private:
  Status Prepare(trainer::TrainObserver observer, NetBackend* backend);
  Result<std::optional<trainer::StepResult>> Step(trainer::TrainingState& state,
                                                  uint64_t until) override;
  bool has_test_data() const override { return test_ != nullptr; }
  trainer::Evaluation Evaluate(const trainer::TrainingState& state) override;
  Result<std::vector<trainer::NamedValue>> Score(const trainer::TrainingState& state);
  double Epoch(const trainer::TrainingState& state) const override;
  io::StateFields RunFields() const;  // what must be the same in a run that resumes

  const NetTrainOptions options_;
  const ImageSet& train_;
  const ImageSet* const test_;
  const NetSpec spec_;
  Params params_;
  std::unique_ptr<Net> net_;
  std::unique_ptr<NetBackend> own_backend_;  // null: the caller's
  NetBackend* backend_ = nullptr;
  std::unique_ptr<BatchSource> batches_;
  std::optional<uint64_t> resumed_step_;
  std::unique_ptr<trainer::TrainingLoop> loop_;
};

// The metrics of a row: test accuracy, test logloss, and the training images' own accuracy.
std::vector<trainer::NamedValue> NetMetrics(double accuracy, double logloss, double train_accuracy);

std::string NetConsoleHeader();
std::string NetConsoleLine(const trainer::MetricsRow& row);

}  // namespace millrace::convnets
