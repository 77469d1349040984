// A job whose net is on parameter servers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convnets/train/net_job.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_dense_store.h"

namespace millrace::convnets {

// `config` has `dense` set.
struct ServerJobOptions : ps::SessionOptions {
  bool resume = false;  // the chief restores the newest checkpoint that all servers have
};

class ServerJob final : public NetJob {
  struct Private {};  // only Join makes jobs

 public:
  static Result<std::unique_ptr<ServerJob>> Join(const ServerJobOptions& options);
  ServerJob(Private, std::unique_ptr<ps::JobSession> session)
      : session_(std::move(session)), store_(std::make_unique<ps::RemoteDenseStore>(*session_)) {}

  sparse::DenseStore& store() override { return *store_; }
  bool chief() const override { return session_->chief(); }
  Result<std::optional<ProgressState>> place() override;
  void Describe(uint32_t images, double loss, const ProgressState& after) override;
  JobSums sums() const override;
  bool stopped() const override { return session_->stopped(); }
  Status Stop() override;
  Status Checkpoint(const ProgressState& state) override;
  Status Finish() override;
  // Says good-bye to the servers: the last call.
  Status Leave() { return session_->Leave(); }

  int64_t clock_offset_ns() const { return session_->clock_offset_ns(); }
  // Of this worker, by shard.
  std::vector<ps::WireStats> wire() const;
  // Of all workers; none where the servers do not answer any more.
  std::vector<ps::WorkerStats> workers();
  uint64_t bytes_a_step() const { return store_->bytes_a_step(); }

 private:
  std::unique_ptr<ps::JobSession> session_;
  std::unique_ptr<ps::RemoteDenseStore> store_;
  std::optional<ProgressState> restored_;  // the chief's
  bool ended_early_ = false;               // by this worker, the chief
};

}  // namespace millrace::convnets
