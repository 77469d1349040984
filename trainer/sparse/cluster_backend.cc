// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/cluster_backend.h"

#include <span>
#include <utility>

#include "sparse/kernels.h"
#include "trainer/sparse/earlier_run.h"

namespace millrace::trainer {
namespace {

// Adds the model and the data, which all workers must agree on.
void AddConfig(const TrainOptions& options, ps::JobConfig& config) {
  config.num_features = options.shape.num_features;
  config.intercept = options.shape.intercept;
  config.factors = options.shape.factors;
  config.update = options.update;
  config.data = OptionsDigest(options);
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
  const auto on_note = session_options.wait.on_note;
  ASSIGN_OR_RETURN(auto session, ps::JobSession::Join(std::move(session_options)));
  auto backend =
      std::make_unique<ClusterBackend>(Private{}, std::move(session), options.train.batch_size);
  // Servers scale the gradient themselves, when they have those of all workers.
  backend->learner_ = MakeStoreLearner(backend->store_, *kernels, sparse::GradientScale::kSum);
  if (backend->chief() && !rejoin) RETURN_IF_ERROR(backend->Prepare(options, on_note));
  if (backend->chief() && before_start) {
    RETURN_IF_ERROR(before_start(backend->start_.resumed_step));
  }
  ASSIGN_OR_RETURN(const ps::JobSession::ResumePoint own, backend->session_->Start());
  TrainingState& state = backend->start_.state;
  state.own = {};
  if (!own.state.empty()) {
    ASSIGN_OR_RETURN(state.own, ResumePoint::Decode(own.state));
  }
  if (!backend->start_.resumed_step) {
    state.steps = backend->session_->progress().step;
    state.examples = state.evaluated_at = backend->session_->progress().examples;
  }
  return backend;
}

// The chief's: the model of the newest checkpoint (resume), of an earlier run or of a model file.
Status ClusterBackend::Prepare(const TrainOptions& options,
                               const std::function<void(const std::string&)>& on_note) {
  if (options.resume) {
    ASSIGN_OR_RETURN(const std::optional<ps::RestoredReply> restored, session_->RestoreLatest());
    if (restored) return TakeRestored(*restored);
  }
  ASSIGN_OR_RETURN(const WeightSource source, FindWeights(options));
  if (on_note && !source.note.empty()) on_note(source.note);
  if (source.earlier.checkpoint) return session_->ContinueFrom(*source.earlier.checkpoint);
  if (source.earlier.model.empty()) {
    const auto intercept = static_cast<float>(options.intercept);
    if (!options.shape.intercept || intercept == 0) return {};
    return session_->LoadWeights({&io::kInterceptKey, 1}, {&intercept, 1});
  }
  return ReadModelFor(source.earlier.model, options.shape, session_->config().update,
                      source.may_grow,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights,
                          std::span<const float> factors) {
                        return session_->LoadWeights(keys, weights, factors);
                      });
}

Status ClusterBackend::TakeRestored(const ps::RestoredReply& restored) {
  ASSIGN_OR_RETURN(start_.state, DecodeTrainingState(restored.chief_state));
  start_.resumed_step = start_.state.steps;
  const uint64_t workers = session_->config().num_workers;
  if (restored.workers.size() == workers) return {};
  std::vector<std::string> earlier, states;
  for (const sparse::WorkerPosition& worker : restored.workers) earlier.push_back(worker.state);
  ASSIGN_OR_RETURN(const std::vector<ResumePoint> divided, DivideStreams(earlier, workers));
  for (const ResumePoint& point : divided) states.push_back(point.Encode());
  return session_->PlaceWorkers(states);
}

void ClusterBackend::Count(const StepResult&, TrainingState& state) const {
  const ps::JobProgress& job = session_->progress();
  CountJob({.steps = job.step, .examples = job.examples, .loss = job.loss, .weight = job.weight},
           state);
}

Status ClusterBackend::Stop() {
  return session_->Stop([this] { return store_.Flush(); });
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
  RETURN_IF_ERROR(session_->HoldPushes());
  TrainingState held = state;  // others have pushed since
  Count({}, held);
  return session_->Checkpoint(held.steps, EncodeTrainingState(held));
}

ModelSource ClusterBackend::Source(uint64_t examples) {
  return {
      .info = {.num_features = session_->config().num_features,
               .rule = sparse::RuleName(session_->config().update.rule),
               .factors = session_->config().factors,
               .steps = session_->progress().step,
               .examples = examples,
               .centers = session_->config().update.centers},
      .for_each = [this](const ModelSource::Visit& visit) { return session_->ReadModel(visit); }};
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
