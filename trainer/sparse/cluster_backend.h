// SPDX-License-Identifier: Apache-2.0
// A sparse model on the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/wire/messages.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "trainer/sparse/sparse_backend.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

// The statistics of a job.
struct JobReport {
  std::vector<ps::WorkerStats> workers;  // empty if the servers no longer reply
  std::vector<ps::WireStats> wire;       // of this worker, by shard
};

class ClusterBackend final : public SparseBackend {
  struct Private {};  // only Join makes backends

 public:
  // For the chief, before any other worker starts to train; with the step that the job resumes
  // from.
  using BeforeStart = std::function<Status(std::optional<uint64_t> resumed_step)>;
  // Joins the job, prepares the model if this is the chief, and blocks until all workers have
  // joined. `options` has been validated; what it says of model and data is added to the config of
  // `session`. `before_start` may be empty.
  static Result<std::unique_ptr<ClusterBackend>> Join(ps::SessionOptions session,
                                                      const TrainOptions& options,
                                                      const BeforeStart& before_start);
  ClusterBackend(Private, std::unique_ptr<ps::JobSession> session, size_t batch_size);

  const TrainingStart& start() const override { return start_; }
  BatchLearner& learner() override { return *learner_; }
  sparse::WeightStore* remote_store() override { return &store_; }
  void SetResumePoint(const ResumePoint& after) override { store_.SetState(after.Encode()); }
  ModelSource Source(uint64_t examples) override;

  uint64_t worker() const override { return session_->worker(); }
  uint64_t num_workers() const override { return session_->config().num_workers; }
  bool remote() const override { return true; }
  void Count(const StepResult& step, TrainingState& state) const override;
  uint64_t uncounted_examples() const override { return uncounted_examples_; }
  Status Flush() override { return store_.Flush(); }
  Status Stop() override;
  bool stopped() const override { return session_->stopped(); }
  Result<bool> WaitForStop() override;
  Result<bool> EmptyStep(const ResumePoint& own, uint64_t until) override;
  Status Finish() override;
  Status Checkpoint(const TrainingState& state) override;

  // The last call.
  Status Leave() { return session_->Leave(); }
  JobReport Report();
  // Add it to this process's steady clock to get that of the job.
  int64_t clock_offset_ns() const { return session_->clock_offset_ns(); }

 private:
  Status Prepare(const TrainOptions& options,
                 const std::function<void(const std::string&)>& on_note);
  Status TakeRestored(const ps::RestoredReply& restored);

  const uint64_t uncounted_examples_;
  std::unique_ptr<ps::JobSession> session_;
  ps::RemoteStore store_;
  bool runs_empty_steps_ = false;
  std::unique_ptr<BatchLearner> learner_;
  TrainingStart start_;
};

}  // namespace millrace::trainer
