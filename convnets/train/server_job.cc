#include "convnets/train/server_job.h"

#include <utility>

namespace millrace::convnets {
namespace {

using io::Result;
using io::Status;

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
  ASSIGN_OR_RETURN(auto transport, ps::MakeThriftTransport(options.servers));
  auto job = std::make_unique<ServerJob>(Private{}, options, std::move(transport));
  ps::RemoteOptions remote;
  remote.config = options.config;
  remote.client.join = {.token = options.token,
                        .worker = options.worker,
                        .name = options.name,
                        .config = {},
                        .rejoin = options.rejoin};
  remote.client.on_note = options.on_note;
  remote.client.should_stop = options.should_stop;
  ASSIGN_OR_RETURN(job->job_,
                   ps::RemoteStore::Connect(*job->transport_, job->clock_, std::move(remote)));
  if (job->chief() && options.resume && !options.rejoin) RETURN_IF_ERROR(job->RestoreLatest());
  job->store_ = std::make_unique<ps::RemoteDenseStore>(*job->job_, options.config, job->chief());
  return job;
}

// The newest checkpoint that all servers have and that is whole on all of them.
Status ServerJob::RestoreLatest() {
  Status status;
  for (const uint64_t id : job_->checkpoints()) {
    status = job_->Restore(id);
    if (!status.ok()) {
      if (options_.on_note) options_.on_note(status.message());
      continue;
    }
    ASSIGN_OR_RETURN(const std::string text, job_->ChiefState());
    ASSIGN_OR_RETURN(restored_, Decoded(text));
    return {};
  }
  if (status.ok() && options_.on_note) {
    options_.on_note("the servers have no checkpoint in common: starting from the beginning");
  }
  return status;
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
  const ps::JobProgress& p = job_->progress();
  return {.steps = p.step, .examples = p.examples, .loss = p.loss};
}

Status ServerJob::Checkpoint(const ProgressState& state) {
  return job_->Checkpoint(state.steps, Encoded(state));
}

Status ServerJob::Stop() {
  ended_early_ = true;
  RETURN_IF_ERROR(job_->Stop());
  return job_->Flush();  // which tells the job's last step
}

Status ServerJob::Finish() {
  RETURN_IF_ERROR(job_->Finish());
  if (!chief() || ended_early_) return {};
  RETURN_IF_ERROR(job_->WaitDrained());
  RETURN_IF_ERROR(job_->Flush());
  return store_->Refresh();
}

std::vector<ps::WireStats> ServerJob::wire() const {
  std::vector<ps::WireStats> all;
  for (size_t shard = 0; shard < job_->shards(); ++shard) all.push_back(store_->wire(shard));
  return all;
}

std::vector<ps::WorkerStats> ServerJob::workers() {
  auto servers = job_->Stats();
  return servers.ok() ? std::move(servers->front().workers) : std::vector<ps::WorkerStats>();
}

}  // namespace millrace::convnets
