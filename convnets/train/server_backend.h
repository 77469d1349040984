// A job whose net is on parameter servers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convnets/train/net_backend.h"
#include "ps/worker/job_link.h"
#include "ps/worker/remote_dense_store.h"

namespace millrace::convnets {

// `config` has `dense` set.
struct ServerJobOptions : ps::JobLinkOptions {
  bool resume = false;  // the chief restores the newest checkpoint that all servers have
};

class ServerJob final : public NetJob {
  struct Private {};  // only Join makes jobs

 public:
  static Result<std::unique_ptr<ServerJob>> Join(const ServerJobOptions& options);
  ServerJob(Private, uint64_t worker, std::unique_ptr<ps::JobLink> link)
      : worker_(worker), link_(std::move(link)) {}

  sparse::DenseStore& store() override { return *store_; }
  bool chief() const override { return worker_ == 0; }
  Result<std::optional<ProgressState>> place() override;
  void Describe(uint32_t images, double loss, const ProgressState& after) override;
  JobSums sums() const override;
  bool stopped() const override { return job().stopped(); }
  Status Stop() override;
  Status Checkpoint(const ProgressState& state) override;
  Status Finish() override;
  // Says good-bye to the servers: the last call.
  Status Leave() { return job().Leave(); }

  int64_t clock_offset_ns() const { return job().clock_offset_ns(); }
  // Of this worker, by shard.
  std::vector<ps::WireStats> wire() const;
  // Of all workers; none where the servers do not answer any more.
  std::vector<ps::WorkerStats> workers();
  uint64_t bytes_a_step() const { return store_->bytes_a_step(); }

 private:
  ps::RemoteStore& job() { return link_->store(); }
  const ps::RemoteStore& job() const { return link_->store(); }

  uint64_t worker_;
  std::unique_ptr<ps::JobLink> link_;
  std::unique_ptr<ps::RemoteDenseStore> store_;
  std::optional<ProgressState> restored_;  // the chief's
  bool ended_early_ = false;               // by this worker, the chief
};

}  // namespace millrace::convnets
