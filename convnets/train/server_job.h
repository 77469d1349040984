// A job whose net is on parameter servers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convnets/train/net_job.h"
#include "ps/clock.h"
#include "ps/job_config.h"
#include "ps/remote_dense_store.h"
#include "ps/remote_store.h"
#include "ps/thrift_transport.h"

namespace millrace::convnets {

struct ServerJobOptions {
  ps::ThriftOptions servers;
  ps::JobConfig config;  // what all workers must agree on, `dense` included
  uint64_t worker = 0;   // 0: the chief
  std::string token;
  std::string name;     // of this process, for messages
  bool rejoin = false;  // this worker was part of the job before
  bool resume = false;  // the chief restores the newest checkpoint that all servers have
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;
};

class ServerJob final : public NetJob {
  struct Private {};  // only Join makes jobs

 public:
  static io::Result<std::unique_ptr<ServerJob>> Join(const ServerJobOptions& options);
  ServerJob(Private, const ServerJobOptions& options, std::unique_ptr<ps::Transport> transport)
      : options_(options), transport_(std::move(transport)) {}

  sparse::DenseStore& store() override { return *store_; }
  bool chief() const override { return options_.worker == 0; }
  io::Result<std::optional<ProgressState>> place() override;
  void Describe(uint32_t images, double loss, const ProgressState& after) override;
  JobSums sums() const override;
  bool stopped() const override { return job_->stopped(); }
  io::Status Stop() override;
  io::Status Checkpoint(const ProgressState& state) override;
  io::Status Finish() override;
  // Says good-bye to the servers: the last call.
  io::Status Leave() { return job_->Leave(); }

  int64_t clock_offset_ns() const { return job_->clock_offset_ns(); }
  // Of this worker, by shard.
  std::vector<ps::WireStats> wire() const;
  // Of all workers; none where the servers do not answer any more.
  std::vector<ps::WorkerStats> workers();
  uint64_t bytes_a_step() const { return store_->bytes_a_step(); }

 private:
  io::Status RestoreLatest();

  ServerJobOptions options_;
  std::unique_ptr<ps::Transport> transport_;
  ps::RealClock clock_;
  std::unique_ptr<ps::RemoteStore> job_;
  std::unique_ptr<ps::RemoteDenseStore> store_;
  std::optional<ProgressState> restored_;  // the chief's
  bool ended_early_ = false;               // by this worker, the chief
};

}  // namespace millrace::convnets
