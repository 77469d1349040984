// SPDX-License-Identifier: Apache-2.0
// A net on the servers of a job.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "convnets/train/net_backend.h"
#include "ps/wire/messages.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_dense_store.h"

namespace millrace::convnets {

// `config` has `dense` set.
struct ServerOptions : ps::SessionOptions {
  bool resume = false;  // the chief restores the newest checkpoint that all servers have
};

class ServerBackend final : public NetBackend {
  struct Private {};  // only Join makes backends

 public:
  static Result<std::unique_ptr<ServerBackend>> Join(const ServerOptions& options);
  ServerBackend(Private, std::unique_ptr<ps::JobSession> session)
      : session_(std::move(session)), store_(*session_) {}

  // The step of the checkpoint that Join restored, if any.
  std::optional<uint64_t> restored_step() const {
    return restored_ ? std::optional(restored_->steps) : std::nullopt;
  }
  // Blocks until all workers have joined. The chief's run folder must be ready: it is claimed now.
  Result<trainer::TrainingStart> Start(const NetStart& start) override;
  sparse::DenseStore& store() override { return store_; }
  void Describe(uint32_t images, double loss, const trainer::ResumePoint& after) override;

  uint64_t worker() const override { return session_->worker(); }
  uint64_t num_workers() const override { return session_->config().num_workers; }
  bool remote() const override { return true; }
  // The last Pull of a step leaves nothing to flush.
  void Count(const trainer::StepResult& step, trainer::TrainingState& state) const override;
  Status Stop() override;
  bool stopped() const override { return session_->stopped(); }
  Status Finish() override;
  Status Checkpoint(const trainer::TrainingState& state) override;

  // The last call.
  Status Leave() { return session_->Leave(); }
  int64_t clock_offset_ns() const { return session_->clock_offset_ns(); }
  // The traffic of this worker, by shard.
  std::vector<ps::WireStats> wire() const;
  // The statistics of all workers; empty if the servers no longer reply.
  std::vector<ps::WorkerStats> workers();
  // Known after Start.
  uint64_t bytes_a_step() const { return store_.bytes_a_step(); }

 private:
  std::unique_ptr<ps::JobSession> session_;
  ps::RemoteDenseStore store_;
  std::optional<trainer::TrainingState> restored_;  // the chief's
};

}  // namespace millrace::convnets
