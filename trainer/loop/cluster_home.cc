#include "trainer/loop/cluster_home.h"

#include <utility>

#include "trainer/model/model_file.h"

namespace millrace::trainer {

using io::Result;
using io::Status;

Status ClusterOptions::Validate() const {
  if (servers.servers.empty()) return io::Invalid("ps_hosts: expected the servers, found none");
  if (worker >= num_workers) {
    return io::Invalid("task_index: expected below the " + std::to_string(num_workers) +
                       " workers, found " + std::to_string(worker));
  }
  return servers.tls.Validate();
}

ClusterHome::ClusterHome(Private, const ClusterOptions& options,
                         std::unique_ptr<ps::Transport> transport)
    : options_(options), transport_(std::move(transport)) {}

Result<std::unique_ptr<ClusterHome>> ClusterHome::Join(const ClusterOptions& options,
                                                       const sparse::Kernels& kernels,
                                                       const ClusterStart& start) {
  ASSIGN_OR_RETURN(auto transport, ps::MakeThriftTransport(options.servers));
  auto home = std::make_unique<ClusterHome>(Private{}, options, std::move(transport));
  home->job_ = start.job;
  ps::RemoteOptions remote;
  remote.config = start.job;
  remote.client.join = {.token = options.token,
                        .worker = options.worker,
                        .name = options.name,
                        .config = {},
                        .rejoin = options.rejoin};
  remote.client.on_note = start.on_note;
  remote.client.should_stop = start.should_stop;
  ASSIGN_OR_RETURN(home->store_,
                   ps::RemoteStore::Connect(*home->transport_, home->clock_, std::move(remote)));
  // Servers scale the gradient themselves, when those of all workers are in.
  home->learner_ = MakeStoreLearner(*home->store_, kernels, sparse::GradientScale::kSum);
  if (home->chief() && !options.rejoin) RETURN_IF_ERROR(home->Prepare(start));
  if (home->chief() && start.before_start) {
    RETURN_IF_ERROR(
        start.before_start(home->state_ ? std::optional(home->state_->steps) : std::nullopt));
  }
  ASSIGN_OR_RETURN(const ps::RemoteStore::Place place, home->store_->Start());
  if (place.sequence > 0) {
    ASSIGN_OR_RETURN(home->place_, WorkerPlace::Decode(place.state));
  }
  return home;
}

Status ClusterHome::Prepare(const ClusterStart& start) {
  if (start.resume) return RestoreLatest(start);
  if (start.model_in.empty()) return {};
  return ReadModelFor(start.model_in, job_.num_features, job_.update,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights) {
                        return store_->LoadWeights(keys, weights);
                      });
}

// The newest checkpoint that all servers have and that is whole on all of them.
Status ClusterHome::RestoreLatest(const ClusterStart& start) {
  Status status;
  for (const uint64_t id : store_->checkpoints()) {
    status = store_->Restore(id);
    if (!status.ok()) {
      if (start.on_note) start.on_note(status.message());
      continue;
    }
    ASSIGN_OR_RETURN(const std::string text, store_->ChiefState());
    ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(text));
    ASSIGN_OR_RETURN(state_, TrainingStateFrom(fields));
    return {};
  }
  if (!status.ok()) return status;
  if (start.on_note) {
    start.on_note("the servers have no checkpoint in common: starting from the beginning");
  }
  return {};
}

Status ClusterHome::Checkpoint(const TrainingState& state) {
  io::StateFields fields;
  AddTrainingState(state, fields);
  return store_->Checkpoint(state.steps, fields.Encode());
}

Status ClusterHome::FinishTraining() {
  RETURN_IF_ERROR(store_->Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(store_->WaitDrained());
  return store_->Flush();
}

ModelSource ClusterHome::Source(uint64_t examples) {
  return {.info = {.num_features = job_.num_features,
                   .rule = sparse::RuleName(job_.update.rule),
                   .steps = store_->progress().step,
                   .examples = examples},
          .for_each = [this](const ModelSource::Visit& visit) { return store_->ReadModel(visit); }};
}

std::optional<JobReport> ClusterHome::Report() {
  JobReport report;
  for (size_t shard = 0; shard < store_->shards(); ++shard) {
    report.wire.push_back(store_->wire(shard));
  }
  auto servers = store_->Stats();
  if (!servers.ok()) return report;
  report.servers = std::move(*servers);
  report.workers = report.servers.front().workers;
  return report;
}

}  // namespace millrace::trainer
