// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/cluster_backend.h"

#include <span>
#include <utility>

#include "sparse/kernels.h"

namespace millrace::trainer {
namespace {

// Adds the model and the data, which all workers must agree on.
void AddConfig(const TrainOptions& options, ps::JobConfig& config) {
  TrainOptions first_worker = options;
  first_worker.train.shard = 0;
  first_worker.train.num_shards = config.num_workers;
  config.num_features = options.shape.num_features;
  config.intercept = options.shape.intercept;
  config.update = options.update;
  config.data = OptionsDigest(first_worker);
}

}  // namespace

// Progress arrives one or two steps late, and each step has a batch of each worker.
ClusterBackend::ClusterBackend(Private, std::unique_ptr<ps::JobSession> session, size_t batch_size)
    : uncounted_examples_(2 * session->config().num_workers * batch_size),
      session_(std::move(session)),
      store_(*session_) {}

Result<std::unique_ptr<ClusterBackend>> ClusterBackend::Join(ps::SessionOptions session_options,
                                                             const TrainOptions& options,
                                                             const BeforeStart& before_start) {
  ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName(options.kernel));
  AddConfig(options, session_options.config);
  session_options.checkpoints = options.checkpoints;
  const bool rejoin = session_options.rejoin;
  ASSIGN_OR_RETURN(auto session, ps::JobSession::Join(std::move(session_options)));
  auto backend =
      std::make_unique<ClusterBackend>(Private{}, std::move(session), options.train.batch_size);
  // Servers scale the gradient themselves, when they have those of all workers.
  backend->learner_ = MakeStoreLearner(backend->store_, *kernels, sparse::GradientScale::kSum);
  if (backend->chief() && !rejoin) RETURN_IF_ERROR(backend->Prepare(options));
  if (backend->chief() && before_start) {
    RETURN_IF_ERROR(before_start(backend->start_.resumed_step));
  }
  ASSIGN_OR_RETURN(const ps::JobSession::ResumePoint own, backend->session_->Start());
  backend->start_.state.own = {};
  if (own.sequence > 0) {
    ASSIGN_OR_RETURN(backend->start_.state.own, ResumePoint::Decode(own.state));
  }
  return backend;
}

// The chief's: the model of the newest checkpoint (resume) or of a model file (warm start).
Status ClusterBackend::Prepare(const TrainOptions& options) {
  if (options.resume) {
    ASSIGN_OR_RETURN(const std::optional<std::string> state, session_->RestoreLatest());
    if (state) {
      ASSIGN_OR_RETURN(start_.state, DecodeTrainingState(*state));
      start_.resumed_step = start_.state.steps;
      return {};
    }
  }
  if (options.model_in.empty()) {
    const auto intercept = static_cast<float>(options.intercept);
    if (!options.shape.intercept || intercept == 0) return {};
    return session_->LoadWeights({&io::kInterceptKey, 1}, {&intercept, 1});
  }
  return ReadModelFor(options.model_in, options.shape, session_->config().update,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights) {
                        return session_->LoadWeights(keys, weights);
                      });
}

void ClusterBackend::Count(const StepResult&, TrainingState& state) const {
  const ps::JobProgress& job = session_->progress();
  CountJob({.steps = job.step, .examples = job.examples, .loss = job.loss, .weight = job.weight},
           state);
}

Status ClusterBackend::Stop() {
  const Status flushed = session_->gave_up() ? Status() : store_.Flush();
  if (!session_->gave_up()) RETURN_IF_ERROR(flushed);  // or else it gave up just now
  return session_->Stop();
}

Result<bool> ClusterBackend::WaitForStop() {
  if (session_->gave_up()) return false;
  RETURN_IF_ERROR(store_.Flush());
  if (session_->stopped()) return true;
  const Status waited = session_->WaitForProgress(ps::JobSession::kNoLimit).status();
  if (!waited.ok() && waited.code() != Code::kCancelled) return waited;
  RETURN_IF_ERROR(store_.Flush());
  return true;
}

Result<bool> ClusterBackend::EmptyStep(const ResumePoint& own, uint64_t until) {
  if (!chief()) return false;
  const bool together = session_->steps_together();
  if (!std::exchange(runs_empty_steps_, true)) {
    RETURN_IF_ERROR(store_.Flush());
    if (!together) RETURN_IF_ERROR(session_->Finish());
  }
  if (session_->stopped()) return false;
  if (!together) return session_->WaitForProgress(until);
  if (session_->others_finished()) return false;
  store_.SetState(own.Encode());
  RETURN_IF_ERROR(store_.Push({}, {}, {}));
  RETURN_IF_ERROR(store_.Flush());
  return !session_->others_finished() && !session_->stopped();
}

Status ClusterBackend::Finish() {
  RETURN_IF_ERROR(store_.Flush());
  RETURN_IF_ERROR(session_->Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(session_->WaitAllFinished());
  return store_.Flush();
}

Status ClusterBackend::Checkpoint(const TrainingState& state) {
  RETURN_IF_ERROR(store_.Flush());
  return session_->Checkpoint(state.steps, EncodeTrainingState(state));
}

ModelSource ClusterBackend::Source(uint64_t examples) {
  ModelSource source = {
      .info = {.num_features = session_->config().num_features,
               .rule = sparse::RuleName(session_->config().update.rule),
               .steps = session_->progress().step,
               .examples = examples},
      .for_each = [this](const ModelSource::Visit& visit) { return session_->ReadModel(visit); }};
  return Uncentered(std::move(source), session_->config().update.centers);
}

JobReport ClusterBackend::Report() {
  JobReport report;
  for (size_t shard = 0; shard < session_->shards(); ++shard) {
    report.wire.push_back(store_.wire(shard));
  }
  auto servers = session_->Stats();
  if (servers.ok()) report.workers = std::move(servers->front().workers);
  return report;
}

}  // namespace millrace::trainer
