#include "convnets/train/server_backend.h"

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
  RETURN_IF_ERROR(options.config.Validate());
  RETURN_IF_ERROR(options.servers.tls.Validate());
  ASSIGN_OR_RETURN(auto link, ps::JobLink::Join(options));
  auto job = std::make_unique<ServerJob>(Private{}, options.worker, std::move(link));
  if (job->chief() && options.resume && !options.rejoin) {
    ASSIGN_OR_RETURN(const std::optional<std::string> state, job->link_->RestoreLatest());
    if (state) {
      ASSIGN_OR_RETURN(job->restored_, Decoded(*state));
    }
  }
  job->store_ = std::make_unique<ps::RemoteDenseStore>(job->job(), options.config, job->chief());
  return job;
}

Result<std::optional<ProgressState>> ServerJob::place() {
  if (restored_) return restored_;
  const ps::RemoteStore::Place& place = store_->place();
  if (place.sequence == 0) return std::optional<ProgressState>();
  ASSIGN_OR_RETURN(ProgressState state, Decoded(place.state));
  return std::optional(state);
}

void ServerJob::Describe(uint32_t images, double loss, const ProgressState& after) {
  store_->Describe({.rows = images, .weight = static_cast<double>(images), .loss = loss},
                   Encoded(after));
}

JobSums ServerJob::sums() const {
  const ps::JobProgress& p = job().progress();
  return {.steps = p.step, .examples = p.examples, .loss = p.loss};
}

Status ServerJob::Checkpoint(const ProgressState& state) {
  return job().Checkpoint(state.steps, Encoded(state));
}

Status ServerJob::Stop() {
  ended_early_ = true;
  RETURN_IF_ERROR(job().Stop());
  return job().Flush();  // which tells the job's last step
}

Status ServerJob::Finish() {
  RETURN_IF_ERROR(job().Finish());
  if (!chief() || ended_early_) return {};
  RETURN_IF_ERROR(job().WaitDrained());
  RETURN_IF_ERROR(job().Flush());
  return store_->Refresh();
}

std::vector<ps::WireStats> ServerJob::wire() const {
  std::vector<ps::WireStats> all;
  for (size_t shard = 0; shard < job().shards(); ++shard) all.push_back(store_->wire(shard));
  return all;
}

std::vector<ps::WorkerStats> ServerJob::workers() {
  auto servers = job().Stats();
  return servers.ok() ? std::move(servers->front().workers) : std::vector<ps::WorkerStats>();
}

}  // namespace millrace::convnets
