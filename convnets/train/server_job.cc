#include "convnets/train/server_job.h"

#include <utility>

namespace millrace::convnets {
namespace {

Result<ProgressState> Decoded(const std::string& text) {
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(text));
  return ProgressState::From(fields);
}

std::string Encoded(const ProgressState& state) {
  io::StateFields fields;
  state.AddTo(fields);
  return fields.Encode();
}

}  // namespace

Result<std::unique_ptr<ServerJob>> ServerJob::Join(const ServerJobOptions& options) {
  ASSIGN_OR_RETURN(auto session, ps::JobSession::Join(options));
  auto job = std::make_unique<ServerJob>(Private{}, std::move(session));
  if (job->chief() && options.resume && !options.rejoin) {
    ASSIGN_OR_RETURN(const std::optional<std::string> state, job->session_->RestoreLatest());
    if (state) {
      ASSIGN_OR_RETURN(job->restored_, Decoded(*state));
    }
  }
  return job;
}

Result<std::optional<ProgressState>> ServerJob::place() {
  if (restored_) return restored_;
  const ps::JobSession::ResumePoint& place = store_->resume_point();
  if (place.sequence == 0) return std::optional<ProgressState>();
  ASSIGN_OR_RETURN(ProgressState state, Decoded(place.state));
  return std::optional(state);
}

void ServerJob::Describe(uint32_t images, double loss, const ProgressState& after) {
  store_->SetStep({.rows = images, .weight = static_cast<double>(images), .loss = loss},
                  Encoded(after));
}

JobSums ServerJob::sums() const {
  const ps::JobProgress& p = session_->progress();
  return {.steps = p.step, .examples = p.examples, .loss = p.loss};
}

Status ServerJob::Checkpoint(const ProgressState& state) {
  RETURN_IF_ERROR(store_->Flush());
  return session_->Checkpoint(state.steps, Encoded(state));
}

Status ServerJob::Stop() {
  ended_early_ = true;
  const ps::JobSession& session = *session_;
  const Status flushed = session.gave_up() ? Status() : store_->Flush();
  if (!session.gave_up()) RETURN_IF_ERROR(flushed);  // or else it gave up just now
  RETURN_IF_ERROR(session_->Stop());
  return store_->Flush();  // for the job's last step
}

Status ServerJob::Finish() {
  RETURN_IF_ERROR(store_->Flush());
  RETURN_IF_ERROR(session_->Finish());
  if (!chief() || ended_early_) return {};
  RETURN_IF_ERROR(session_->WaitAllFinished());
  RETURN_IF_ERROR(store_->Flush());
  return store_->Refresh();
}

std::vector<ps::WireStats> ServerJob::wire() const {
  std::vector<ps::WireStats> all;
  for (size_t shard = 0; shard < session_->shards(); ++shard) all.push_back(store_->wire(shard));
  return all;
}

std::vector<ps::WorkerStats> ServerJob::workers() {
  auto servers = session_->Stats();
  return servers.ok() ? std::move(servers->front().workers) : std::vector<ps::WorkerStats>();
}

}  // namespace millrace::convnets
