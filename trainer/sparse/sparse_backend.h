// SPDX-License-Identifier: Apache-2.0
// The backend of a sparse model: where it lives, and how a step reaches it. cluster_backend.h has
// the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "sparse/local_store.h"
#include "sparse/weight_store.h"
#include "trainer/loop/backend.h"
#include "trainer/model/model_file.h"
#include "trainer/sparse/batch_learner.h"
#include "trainer/sparse/checkpoint.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

// Not thread-safe.
class SparseBackend : public Backend {
 public:
  virtual const TrainingStart& start() const = 0;
  virtual BatchLearner& learner() = 0;
  // One of the two is null.
  virtual sparse::LocalStore* local_store() { return nullptr; }
  virtual sparse::WeightStore* remote_store() { return nullptr; }
  // The resume point of this process after the next step.
  virtual void SetResumePoint(const ResumePoint& /*after*/) {}
  // The backend outlives the source. `examples`: trained on.
  virtual ModelSource Source(uint64_t examples) = 0;
};

// A model in this process, with its checkpoints in a folder.
class LocalBackend final : public SparseBackend {
  struct Private {};  // only Create makes backends

 public:
  // Makes the model, or takes it from the newest checkpoint (resume) or a model file (warm start).
  static Result<std::unique_ptr<LocalBackend>> Create(
      const TrainOptions& options, const std::function<void(const std::string&)>& on_note);
  LocalBackend(Private, std::unique_ptr<sparse::LocalStore> store, const TrainOptions& options)
      : store_(std::move(store)),
        input_({options.train.format, options.train.rows}),
        checkpoints_(options.checkpoints, OptionsDigest(options), input_) {}

  const TrainingStart& start() const override { return start_; }
  BatchLearner& learner() override { return *learner_; }
  sparse::LocalStore* local_store() override { return store_.get(); }
  ModelSource Source(uint64_t examples) override { return SourceOf(*store_, examples); }
  Status Checkpoint(const TrainingState& state) override {
    return checkpoints_.Save(*store_, state);
  }

 private:
  Status Restore(const std::string& folder, const std::function<void(const std::string&)>& on_note);
  Status WarmStart(const TrainOptions& options,
                   const std::function<void(const std::string&)>& on_note);

  std::unique_ptr<sparse::LocalStore> store_;
  std::unique_ptr<BatchLearner> learner_;
  io::RowFormat input_;
  RunCheckpoints checkpoints_;
  TrainingStart start_;
};

}  // namespace millrace::trainer
