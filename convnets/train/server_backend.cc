// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/server_backend.h"

#include <utility>

namespace millrace::convnets {

Result<std::unique_ptr<ServerBackend>> ServerBackend::Join(const ServerOptions& options) {
  ASSIGN_OR_RETURN(auto session, ps::JobSession::Join(options));
  auto backend = std::make_unique<ServerBackend>(Private{}, std::move(session));
  if (backend->chief() && options.resume && !options.rejoin) {
    ASSIGN_OR_RETURN(const auto restored, backend->session_->RestoreLatest());
    if (restored) {
      ASSIGN_OR_RETURN(backend->restored_, trainer::DecodeTrainingState(restored->chief_state));
    }
  }
  return backend;
}

Result<trainer::TrainingStart> ServerBackend::Start(const NetStart& start) {
  RETURN_IF_ERROR(store_.Init(start.params));
  trainer::TrainingStart from;
  if (restored_) {
    from = {.state = *restored_, .resumed_step = restored_->steps};
    from.state.own = {};
  }
  const ps::JobSession::ResumePoint& own = store_.resume_point();
  if (own.sequence == 0) return from;
  if (!restored_) {
    from.state.steps = session_->progress().step;
    from.state.examples = session_->progress().examples;
    from.state.total_loss = session_->progress().loss;
    from.state.total_weight = session_->progress().weight;
    from.resumed_step = from.state.steps;
  }
  ASSIGN_OR_RETURN(from.state.own, trainer::ResumePoint::Decode(own.state));
  return from;
}

void ServerBackend::Describe(uint32_t images, double loss, const trainer::ResumePoint& after) {
  store_.SetStep({.rows = images, .weight = static_cast<double>(images), .loss = loss},
                 after.Encode());
}

void ServerBackend::Count(const trainer::StepResult&, trainer::TrainingState& state) const {
  const ps::JobProgress& p = session_->progress();
  trainer::CountJob({.steps = p.step, .examples = p.examples, .loss = p.loss, .weight = p.weight},
                    state);
}

Status ServerBackend::Stop() {
  RETURN_IF_ERROR(session_->Stop([this] { return store_.Flush(); }));
  return store_.Flush();  // the reply has the job's last step
}

Status ServerBackend::Finish() {
  RETURN_IF_ERROR(store_.Flush());
  RETURN_IF_ERROR(session_->Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(session_->WaitAllFinished());
  RETURN_IF_ERROR(store_.Flush());
  return store_.Refresh();
}

Status ServerBackend::Checkpoint(const trainer::TrainingState& state) {
  RETURN_IF_ERROR(store_.Flush());
  return session_->Checkpoint(state.steps, trainer::EncodeTrainingState(state));
}

std::vector<ps::WireStats> ServerBackend::wire() const {
  std::vector<ps::WireStats> all;
  for (size_t shard = 0; shard < session_->shards(); ++shard) all.push_back(store_.wire(shard));
  return all;
}

std::vector<ps::WorkerStats> ServerBackend::workers() {
  auto servers = session_->Stats();
  return servers.ok() ? std::move(servers->front().workers) : std::vector<ps::WorkerStats>();
}

}  // namespace millrace::convnets
