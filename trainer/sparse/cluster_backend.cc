#include "trainer/sparse/cluster_backend.h"

#include <utility>

#include "trainer/model/model_file.h"

namespace millrace::trainer {

Status ClusterOptions::Validate() const {
  if (servers.servers.empty()) return Invalid("ps_hosts: expected the servers, found none");
  if (worker >= num_workers) {
    return Invalid("task_index: expected below the " + std::to_string(num_workers) +
                   " workers, found " + std::to_string(worker));
  }
  return servers.tls.Validate();
}

Result<std::unique_ptr<ClusterHome>> ClusterHome::Join(const ClusterOptions& options,
                                                       const sparse::Kernels& kernels,
                                                       const ClusterStart& start) {
  ASSIGN_OR_RETURN(auto link, ps::JobLink::Join({.servers = options.servers,
                                                 .config = start.job,
                                                 .worker = options.worker,
                                                 .token = options.token,
                                                 .name = options.name,
                                                 .rejoin = options.rejoin,
                                                 .on_note = start.on_note,
                                                 .should_stop = start.should_stop}));
  auto home = std::make_unique<ClusterHome>(Private{}, options.worker, start.job, std::move(link));
  // Servers scale the gradient themselves, when those of all workers are in.
  home->learner_ = MakeStoreLearner(home->store(), kernels, sparse::GradientScale::kSum);
  if (home->chief() && !options.rejoin) RETURN_IF_ERROR(home->Prepare(start));
  if (home->chief() && start.before_start) {
    RETURN_IF_ERROR(
        start.before_start(home->state_ ? std::optional(home->state_->steps) : std::nullopt));
  }
  ASSIGN_OR_RETURN(const ps::RemoteStore::Place place, home->store().Start());
  if (place.sequence > 0) {
    ASSIGN_OR_RETURN(home->place_, WorkerPlace::Decode(place.state));
  }
  return home;
}

Status ClusterHome::Prepare(const ClusterStart& start) {
  if (start.resume) RETURN_IF_ERROR(RestoreLatest());
  if (state_ || start.model_in.empty()) return {};
  return ReadModelFor(start.model_in, job_.num_features, job_.update,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights) {
                        return store().LoadWeights(keys, weights);
                      });
}

Status ClusterHome::RestoreLatest() {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, link_->RestoreLatest());
  if (!text) return {};
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(*text));
  ASSIGN_OR_RETURN(state_, TrainingStateFrom(fields));
  return {};
}

Status ClusterHome::Checkpoint(const TrainingState& state) {
  io::StateFields fields;
  AddTrainingState(state, fields);
  return store().Checkpoint(state.steps, fields.Encode());
}

Result<bool> ClusterHome::Accompany(const WorkerPlace& place) {
  if (!chief()) return false;
  return store().Accompany(place.Encode());
}

Status ClusterHome::FinishTraining() {
  RETURN_IF_ERROR(store().Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(store().WaitDrained());
  return store().Flush();
}

ModelSource ClusterHome::Source(uint64_t examples) {
  return {.info = {.num_features = job_.num_features,
                   .rule = sparse::RuleName(job_.update.rule),
                   .steps = store().progress().step,
                   .examples = examples},
          .for_each = [this](const ModelSource::Visit& visit) { return store().ReadModel(visit); }};
}

std::optional<JobReport> ClusterHome::Report() {
  JobReport report;
  for (size_t shard = 0; shard < store().shards(); ++shard) {
    report.wire.push_back(store().wire(shard));
  }
  auto servers = store().Stats();
  if (!servers.ok()) return report;
  report.servers = std::move(*servers);
  report.workers = report.servers.front().workers;
  return report;
}

}  // namespace millrace::trainer
