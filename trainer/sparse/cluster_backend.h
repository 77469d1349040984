// A sparse model on the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/wire/messages.h"
#include "ps/worker/job_link.h"
#include "trainer/sparse/sparse_backend.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

struct ClusterOptions {
  ps::ThriftOptions servers;
  uint64_t worker = 0;  // 0: the chief
  uint64_t num_workers = 1;
  ps::Mode mode = ps::Mode::kSync;
  uint64_t staleness = ps::JobConfig{}.staleness;
  uint64_t replicas_to_aggregate = 0;
  bool bf16 = false;
  bool zstd = false;
  std::string token;
  std::string name;     // of this process, for messages
  bool rejoin = false;  // this worker was part of the job before

  Status Validate() const;
};

// All are optional.
struct ClusterHooks {
  // The chief's, before any other worker starts to train; with the step that the job resumes from.
  std::function<Status(std::optional<uint64_t> resumed_step)> before_start = nullptr;
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;
};

// What the servers and workers of a job did.
struct JobReport {
  std::vector<ps::WorkerStats> workers;  // empty where the servers no longer reply
  std::vector<ps::WireStats> wire;       // of this worker, by shard
};

class ClusterBackend final : public SparseBackend {
  struct Private {};  // only Join makes backends

 public:
  // Joins the job, prepares the model if this is the chief, and blocks until all workers have
  // joined. `options` has been validated.
  static Result<std::unique_ptr<ClusterBackend>> Join(const ClusterOptions& cluster,
                                                      const TrainOptions& options,
                                                      const ClusterHooks& hooks);
  ClusterBackend(Private, const ClusterOptions& cluster, const TrainOptions& options,
                 const ps::JobConfig& job, std::unique_ptr<ps::JobLink> link);

  const TrainingStart& start() const override { return start_; }
  BatchLearner& learner() override { return *learner_; }
  sparse::WeightStore* remote_store() override { return &store(); }
  void SetResumePoint(const ResumePoint& after) override { store().SetState(after.Encode()); }
  ModelSource Source(uint64_t examples) override;

  uint64_t worker() const override { return worker_; }
  uint64_t num_workers() const override { return job_.num_workers; }
  bool remote() const override { return true; }
  void Count(const StepResult& step, TrainingState& state) const override;
  uint64_t uncounted_examples() const override { return uncounted_examples_; }
  Status Flush() override { return store().Flush(); }
  Status Stop() override { return store().Stop(); }
  bool stopped() const override { return store().stopped(); }
  Result<bool> WaitForStop() override;
  Result<bool> EmptyStep(const ResumePoint& own) override;
  Status Finish() override;
  Status Checkpoint(const TrainingState& state) override;

  // The last call.
  Status Leave() { return store().Leave(); }
  JobReport Report();
  // To be added to this process's steady clock to get that of the job.
  int64_t clock_offset_ns() const { return store().clock_offset_ns(); }

 private:
  Status Prepare(const TrainOptions& options);
  ps::RemoteStore& store() { return link_->store(); }
  const ps::RemoteStore& store() const { return link_->store(); }

  const uint64_t worker_;
  const uint64_t uncounted_examples_;
  const ps::JobConfig job_;
  std::unique_ptr<ps::JobLink> link_;
  std::unique_ptr<BatchLearner> learner_;
  TrainingStart start_;
};

}  // namespace millrace::trainer
