#include "trainer/loop/cluster_home.h"

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
  ps::SessionOptions session_options;
  session_options.thrift = options.servers;
  session_options.config = start.job;
  session_options.worker = options.worker;
  session_options.token = options.token;
  session_options.name = options.name;
  session_options.rejoin = options.rejoin;
  session_options.wait.on_note = start.on_note;
  session_options.wait.should_stop = start.should_stop;
  ASSIGN_OR_RETURN(auto session, ps::JobSession::Join(session_options));
  auto home = std::make_unique<ClusterHome>(Private{}, std::move(session));
  // Servers scale the gradient themselves, when those of all workers are in.
  home->learner_ = MakeStoreLearner(home->store_, kernels, sparse::GradientScale::kSum);
  if (home->chief() && !options.rejoin) RETURN_IF_ERROR(home->Prepare(start));
  if (home->chief() && start.before_start) {
    RETURN_IF_ERROR(
        start.before_start(home->state_ ? std::optional(home->state_->steps) : std::nullopt));
  }
  ASSIGN_OR_RETURN(const ps::JobSession::ResumePoint place, home->session_->Start());
  if (place.sequence > 0) {
    ASSIGN_OR_RETURN(home->place_, WorkerPlace::Decode(place.state));
  }
  return home;
}

Status ClusterHome::Prepare(const ClusterStart& start) {
  if (start.resume) RETURN_IF_ERROR(RestoreLatest());
  if (state_ || start.model_in.empty()) return {};
  return ReadModelFor(start.model_in, session_->config().num_features, session_->config().update,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights) {
                        return session_->LoadWeights(keys, weights);
                      });
}

Status ClusterHome::RestoreLatest() {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, session_->RestoreLatest());
  if (!text) return {};
  ASSIGN_OR_RETURN(const io::StateFields fields, io::StateFields::Decode(*text));
  ASSIGN_OR_RETURN(state_, TrainingStateFrom(fields));
  return {};
}

Status ClusterHome::Checkpoint(const TrainingState& state) {
  io::StateFields fields;
  AddTrainingState(state, fields);
  RETURN_IF_ERROR(store_.Flush());
  return session_->Checkpoint(state.steps, fields.Encode());
}

Status ClusterHome::StopJob() {
  const Status flushed = session_->gave_up() ? Status() : store_.Flush();
  if (!session_->gave_up()) RETURN_IF_ERROR(flushed);  // or else it gave up just now
  return session_->Stop();
}

Result<bool> ClusterHome::Accompany(const WorkerPlace& place) {
  if (!chief()) return false;
  if (!std::exchange(accompanies_, true)) {
    RETURN_IF_ERROR(store_.Flush());
    if (!session_->steps_together()) RETURN_IF_ERROR(session_->Finish());
  }
  if (session_->stopped()) return false;
  if (!session_->steps_together())
    return session_->WaitForProgress(session_->progress().examples + 1);
  if (session_->others_finished()) return false;
  store_.SetState(place.Encode());
  RETURN_IF_ERROR(store_.Push({}, {}, {}));
  RETURN_IF_ERROR(store_.Flush());
  return !session_->others_finished() && !session_->stopped();
}

Status ClusterHome::FinishTraining() {
  RETURN_IF_ERROR(store_.Flush());
  RETURN_IF_ERROR(session_->Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(session_->WaitAllFinished());
  return store_.Flush();
}

ModelSource ClusterHome::Source(uint64_t examples) {
  return {
      .info = {.num_features = session_->config().num_features,
               .rule = sparse::RuleName(session_->config().update.rule),
               .steps = session_->progress().step,
               .examples = examples},
      .for_each = [this](const ModelSource::Visit& visit) { return session_->ReadModel(visit); }};
}

std::optional<JobReport> ClusterHome::Report() {
  JobReport report;
  for (size_t shard = 0; shard < session_->shards(); ++shard) {
    report.wire.push_back(store_.wire(shard));
  }
  auto servers = session_->Stats();
  if (!servers.ok()) return report;
  report.servers = std::move(*servers);
  report.workers = report.servers.front().workers;
  return report;
}

}  // namespace millrace::trainer
