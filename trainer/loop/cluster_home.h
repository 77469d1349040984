// A model on the servers of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "sparse/kernels.h"
#include "trainer/loop/model_home.h"

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
  ClusterHome(Private, std::unique_ptr<ps::JobSession> session)
      : session_(std::move(session)), store_(*session_) {}

  // What to go on from: of the chief of a job that was restored, of a worker that has pushed
  // before.
  const std::optional<TrainingState>& state() const { return state_; }
  const std::optional<WorkerPlace>& place() const { return place_; }
  int64_t clock_offset_ns() const { return session_->clock_offset_ns(); }

  BatchLearner& learner() override { return *learner_; }
  sparse::WeightStore* remote_store() override { return &store_; }
  bool chief() const override { return session_->chief(); }
  std::optional<ps::JobProgress> progress() const override { return session_->progress(); }
  void WillLearn(const WorkerPlace& after) override { store_.SetState(after.Encode()); }
  Status Settle() override { return store_.Flush(); }
  bool gave_up() const override { return session_->gave_up(); }
  bool stopped() const override { return session_->stopped(); }
  Status StopJob() override;
  Result<bool> Accompany(const WorkerPlace& place) override;
  Status Checkpoint(const TrainingState& state) override;
  Status FinishTraining() override;
  Status Leave() override { return session_->Leave(); }
  ModelSource Source(uint64_t examples) override;
  std::optional<JobReport> Report() override;

 private:
  Status Prepare(const ClusterStart& start);
  Status RestoreLatest();

  std::unique_ptr<ps::JobSession> session_;
  ps::RemoteStore store_;
  bool accompanies_ = false;
  std::unique_ptr<BatchLearner> learner_;
  std::optional<TrainingState> state_;
  std::optional<WorkerPlace> place_;
};

}  // namespace millrace::trainer
