#include "trainer/sparse/cluster_backend.h"

#include <span>
#include <utility>

#include "sparse/kernels.h"

namespace millrace::trainer {
namespace {

// What all workers must agree on.
ps::JobConfig ConfigOf(const ClusterOptions& cluster, const TrainOptions& options) {
  TrainOptions first_worker = options;
  first_worker.train.shard = 0;
  first_worker.train.num_shards = cluster.num_workers;
  return {.num_workers = cluster.num_workers,
          .num_shards = cluster.servers.servers.size(),
          .mode = cluster.mode,
          .staleness = cluster.staleness,
          .replicas_to_aggregate = cluster.replicas_to_aggregate,
          .num_features = options.shape.num_features,
          .update = options.update,
          .zstd = cluster.zstd,
          .bf16 = cluster.bf16,
          .data = OptionsDigest(first_worker)};
}

}  // namespace

Status ClusterOptions::Validate() const {
  if (servers.servers.empty()) return Invalid("ps_hosts: expected the servers, found none");
  if (worker >= num_workers) {
    return Invalid("task_index: expected below the " + std::to_string(num_workers) +
                   " workers, found " + std::to_string(worker));
  }
  return servers.tls.Validate();
}

// Progress arrives one or two steps late, and each step has a batch of each worker.
ClusterBackend::ClusterBackend(Private, const ClusterOptions& cluster, const TrainOptions& options,
                               const ps::JobConfig& job, std::unique_ptr<ps::JobLink> link)
    : worker_(cluster.worker),
      uncounted_examples_(2 * cluster.num_workers * options.train.batch_size),
      job_(job),
      link_(std::move(link)) {}

Result<std::unique_ptr<ClusterBackend>> ClusterBackend::Join(const ClusterOptions& cluster,
                                                             const TrainOptions& options,
                                                             const ClusterHooks& hooks) {
  RETURN_IF_ERROR(cluster.Validate());
  ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName(options.kernel));
  const ps::JobConfig job = ConfigOf(cluster, options);
  ASSIGN_OR_RETURN(auto link, ps::JobLink::Join({.servers = cluster.servers,
                                                 .config = job,
                                                 .worker = cluster.worker,
                                                 .token = cluster.token,
                                                 .name = cluster.name,
                                                 .rejoin = cluster.rejoin,
                                                 .on_note = hooks.on_note,
                                                 .should_stop = hooks.should_stop}));
  auto backend =
      std::make_unique<ClusterBackend>(Private{}, cluster, options, job, std::move(link));
  // Servers scale the gradient themselves, when they have those of all workers.
  backend->learner_ = MakeStoreLearner(backend->store(), *kernels, sparse::GradientScale::kSum);
  if (backend->chief() && !cluster.rejoin) RETURN_IF_ERROR(backend->Prepare(options));
  if (backend->chief() && hooks.before_start) {
    RETURN_IF_ERROR(hooks.before_start(backend->start_.resumed_step));
  }
  ASSIGN_OR_RETURN(const ps::RemoteStore::Place place, backend->store().Start());
  backend->start_.state.own = {};
  if (place.sequence > 0) {
    ASSIGN_OR_RETURN(backend->start_.state.own, ResumePoint::Decode(place.state));
  }
  return backend;
}

// The chief's: the model of the newest checkpoint (resume) or of a model file (warm start).
Status ClusterBackend::Prepare(const TrainOptions& options) {
  if (options.resume) {
    ASSIGN_OR_RETURN(const std::optional<std::string> state, link_->RestoreLatest());
    if (state) {
      ASSIGN_OR_RETURN(start_.state, DecodeTrainingState(*state));
      start_.resumed_step = start_.state.steps;
      return {};
    }
  }
  if (options.model_in.empty()) return {};
  return ReadModelFor(options.model_in, job_.num_features, job_.update,
                      [&](std::span<const uint64_t> keys, std::span<const float> weights) {
                        return store().LoadWeights(keys, weights);
                      });
}

void ClusterBackend::Count(const StepResult&, TrainingState& state) const {
  const ps::JobProgress& job = store().progress();
  CountJob({.steps = job.step, .examples = job.examples, .loss = job.loss, .weight = job.weight},
           state);
}

// The servers block a call that waits for the other workers for about a second.
Result<bool> ClusterBackend::WaitForStop() {
  if (store().gave_up()) return false;
  RETURN_IF_ERROR(store().Flush());
  if (store().stopped()) return true;
  const Status waited = store().WaitDrained();
  if (!waited.ok() && waited.code() != Code::kCancelled) return waited;
  RETURN_IF_ERROR(store().Flush());
  return true;
}

Result<bool> ClusterBackend::EmptyStep(const ResumePoint& own) {
  if (!chief()) return false;
  return store().Accompany(own.Encode());
}

Status ClusterBackend::Finish() {
  RETURN_IF_ERROR(store().Finish());
  if (!chief()) return {};
  RETURN_IF_ERROR(store().WaitDrained());
  return store().Flush();
}

Status ClusterBackend::Checkpoint(const TrainingState& state) {
  return store().Checkpoint(state.steps, EncodeTrainingState(state));
}

ModelSource ClusterBackend::Source(uint64_t examples) {
  return {.info = {.num_features = job_.num_features,
                   .rule = sparse::RuleName(job_.update.rule),
                   .steps = store().progress().step,
                   .examples = examples},
          .for_each = [this](const ModelSource::Visit& visit) { return store().ReadModel(visit); }};
}

JobReport ClusterBackend::Report() {
  JobReport report;
  for (size_t shard = 0; shard < store().shards(); ++shard) {
    report.wire.push_back(store().wire(shard));
  }
  auto servers = store().Stats();
  if (servers.ok()) report.workers = std::move(servers->front().workers);
  return report;
}

}  // namespace millrace::trainer
