#include "convnets/train/server_backend.h"

#include <utility>

namespace millrace::convnets {

ServerBackend::ServerBackend(Private, const ServerOptions& options,
                             std::unique_ptr<ps::JobLink> link)
    : worker_(options.worker), num_workers_(options.config.num_workers), link_(std::move(link)) {}

Result<std::unique_ptr<ServerBackend>> ServerBackend::Join(const ServerOptions& options) {
  RETURN_IF_ERROR(options.config.Validate());
  RETURN_IF_ERROR(options.servers.tls.Validate());
  ASSIGN_OR_RETURN(auto link, ps::JobLink::Join(options));
  auto backend = std::make_unique<ServerBackend>(Private{}, options, std::move(link));
  if (backend->chief() && options.resume && !options.rejoin) {
    ASSIGN_OR_RETURN(const std::optional<std::string> state, backend->link_->RestoreLatest());
    if (state) {
      ASSIGN_OR_RETURN(backend->restored_, trainer::DecodeTrainingState(*state));
    }
  }
  backend->store_ =
      std::make_unique<ps::RemoteDenseStore>(backend->job(), options.config, backend->chief());
  return backend;
}

Result<trainer::TrainingStart> ServerBackend::Start(const NetStart& start) {
  RETURN_IF_ERROR(store_->Init(start.params));
  trainer::TrainingStart from;
  if (restored_) {
    from = {.state = *restored_, .resumed_step = restored_->steps};
    from.state.own = {};
  }
  const ps::RemoteStore::Place& place = store_->place();
  if (place.sequence == 0) return from;
  if (!restored_) {
    from.state.steps = job().progress().step;
    from.state.examples = job().progress().examples;
    from.state.total_loss = job().progress().loss;
    from.state.total_weight = job().progress().weight;
    from.resumed_step = from.state.steps;
  }
  ASSIGN_OR_RETURN(from.state.own, trainer::ResumePoint::Decode(place.state));
  return from;
}

void ServerBackend::Describe(uint32_t images, double loss, const trainer::ResumePoint& after) {
  store_->Describe({.rows = images, .weight = static_cast<double>(images), .loss = loss},
                   after.Encode());
}

void ServerBackend::Count(const trainer::StepResult&, trainer::TrainingState& state) const {
  const ps::JobProgress& p = job().progress();
  trainer::CountJob({.steps = p.step, .examples = p.examples, .loss = p.loss, .weight = p.weight},
                    state);
}

Status ServerBackend::Stop() {
  RETURN_IF_ERROR(job().Stop());
  return job().Flush();  // the reply has the job's last step
}

Status ServerBackend::Finish() {
  RETURN_IF_ERROR(job().Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(job().WaitDrained());
  RETURN_IF_ERROR(job().Flush());
  return store_->Refresh();
}

Status ServerBackend::Checkpoint(const trainer::TrainingState& state) {
  return job().Checkpoint(state.steps, trainer::EncodeTrainingState(state));
}

std::vector<ps::WireStats> ServerBackend::wire() const {
  std::vector<ps::WireStats> all;
  for (size_t shard = 0; shard < job().shards(); ++shard) all.push_back(store_->wire(shard));
  return all;
}

std::vector<ps::WorkerStats> ServerBackend::workers() {
  auto servers = job().Stats();
  return servers.ok() ? std::move(servers->front().workers) : std::vector<ps::WorkerStats>();
}

}  // namespace millrace::convnets
