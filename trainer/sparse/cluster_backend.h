// A model on the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/worker/job_link.h"
#include "sparse/kernels.h"
#include "trainer/sparse/sparse_backend.h"

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

struct ClusterStart {
  ps::JobConfig job;  // what all workers must agree on
  bool resume = false;
  std::string model_in;  // warm start
  std::function<Status(std::optional<uint64_t> resumed_step)> before_start = nullptr;
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;
};

class ClusterHome final : public ModelHome {
  struct Private {};  // only Join makes homes

 public:
  // Joins the job, prepares the model if this is the chief, and waits until all workers are there.
  static Result<std::unique_ptr<ClusterHome>> Join(const ClusterOptions& options,
                                                   const sparse::Kernels& kernels,
                                                   const ClusterStart& start);
  ClusterHome(Private, uint64_t worker, const ps::JobConfig& job, std::unique_ptr<ps::JobLink> link)
      : worker_(worker), job_(job), link_(std::move(link)) {}

  // What to go on from: of the chief of a job that was restored, of a worker that has pushed
  // before.
  const std::optional<TrainingState>& state() const { return state_; }
  const std::optional<WorkerPlace>& place() const { return place_; }
  int64_t clock_offset_ns() const { return store().clock_offset_ns(); }

  BatchLearner& learner() override { return *learner_; }
  sparse::WeightStore* remote_store() override { return &store(); }
  bool chief() const override { return worker_ == 0; }
  std::optional<ps::JobProgress> progress() const override { return store().progress(); }
  void WillLearn(const WorkerPlace& after) override { store().SetState(after.Encode()); }
  Status Settle() override { return store().Flush(); }
  bool gave_up() const override { return store().gave_up(); }
  bool stopped() const override { return store().stopped(); }
  Status StopJob() override { return store().Stop(); }
  Result<bool> Accompany(const WorkerPlace& place) override;
  Status Checkpoint(const TrainingState& state) override;
  Status FinishTraining() override;
  Status Leave() override { return store().Leave(); }
  ModelSource Source(uint64_t examples) override;
  std::optional<JobReport> Report() override;

 private:
  Status Prepare(const ClusterStart& start);
  Status RestoreLatest();
  ps::RemoteStore& store() { return link_->store(); }
  const ps::RemoteStore& store() const { return link_->store(); }

  uint64_t worker_;
  ps::JobConfig job_;
  std::unique_ptr<ps::JobLink> link_;
  std::unique_ptr<BatchLearner> learner_;
  std::optional<TrainingState> state_;
  std::optional<WorkerPlace> place_;
};

}  // namespace millrace::trainer
