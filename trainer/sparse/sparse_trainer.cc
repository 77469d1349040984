// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/sparse_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/stream/input_files.h"
#include "profiler/trace.h"
#include "trainer/sparse/hogwild_run.h"
#include "trainer/sparse/sparse_backend.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

// With servers an evaluation is a few large pulls, and not thousands of small ones.
constexpr size_t kRemoteTestRows = 1 << 16;
constexpr uint64_t kHogwildExamples = 200000;  // between looks at the clock

double WeightOf(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

}  // namespace

Result<std::unique_ptr<SparseTrainer>> SparseTrainer::Create(TrainOptions options,
                                                             TrainObserver observer,
                                                             SparseBackend* backend) {
  RETURN_IF_ERROR(options.Validate());
  auto trainer = std::make_unique<SparseTrainer>(Private{}, std::move(options));
  RETURN_IF_ERROR(trainer->Prepare(std::move(observer), backend));
  return trainer;
}

Status SparseTrainer::Prepare(TrainObserver observer, SparseBackend* backend) {
  // Missing test files are an error now, and not after the training.
  RETURN_IF_ERROR(io::CheckInputFiles(options_.test.files));
  if (options_.eval_every > 0) {
    RETURN_IF_ERROR(io::CheckReadableAgain(options_.test.files, "eval_every = 0"));
  }
  ASSIGN_OR_RETURN(kernels_, sparse::KernelsByName(options_.kernel));
  if (!backend) {
    ASSIGN_OR_RETURN(own_backend_, LocalBackend::Create(options_, observer.on_note));
  }
  backend_ = backend ? backend : own_backend_.get();
  if (options_.hogwild > 1 && !backend_->local_store()) {
    return Invalid("hogwild: expected a model in this process, found one on servers");
  }
  max_own_examples_ =
      OwnExamples(options_.max_examples, backend_->worker(), backend_->num_workers());
  options_.train.should_stop = options_.test.should_stop = observer.should_stop;
  TrainingState start = backend_->start().state;
  RETURN_IF_ERROR(OpenInput(start));
  const LoopOptions loop = {.max_own_examples = max_own_examples_,
                            .eval_every = options_.eval_every,
                            .early_stop = options_.early_stop,
                            .writes_checkpoints = !options_.checkpoints.empty(),
                            .checkpoint_every = options_.checkpoint_every};
  TrainingTask& task = *this;
  loop_ =
      std::make_unique<TrainingLoop>(loop, std::move(observer), task, *backend_, std::move(start));
  return {};
}

Status SparseTrainer::OpenInput(TrainingState& start) {
  if (backend_->remote()) {  // each worker trains on its own part of the data
    options_.train.shard = backend_->worker();
    options_.train.num_shards = backend_->num_workers();
    options_.test.batch_size = std::max(options_.test.batch_size, kRemoteTestRows);
  }
  options_.train.compact = options_.test.compact = backend_->learner().wants_compact_batches();
  options_.train.rows.centers = options_.test.rows.centers = options_.update.centers;
  options_.train.start = start.own.position;
  ASSIGN_OR_RETURN(queue_, io::InputQueue::Open(options_.train));
  if (start.own.input_fingerprint != 0 && queue_->fingerprint() != start.own.input_fingerprint) {
    return Invalid(
        "resume: the training files are not those of the checkpoint: their number or order "
        "differs, "
        "or the size, the first or the last bytes of " +
        (options_.train.files.size() == 1 ? options_.train.files[0] : "one of them"));
  }
  start.own.input_fingerprint = queue_->fingerprint();
  start.options_digest = OptionsDigest(options_);
  if (options_.test.files.empty() || !backend_->chief()) return {};
  test_set_ = std::make_unique<TestSet>(options_.test, options_.test_cache_bytes);
  if (backend_->remote()) test_set_->Preload();
  return {};
}

Result<TrainSummary> SparseTrainer::Run() {
  const Result<TrainSummary> summary = loop_->Run();
  profiler::MarkStep(loop_->state().steps);
  RETURN_IF_ERROR(summary.status());
  const bool stopped = summary->end == TrainSummary::End::kStopped;
  if (summary->examples == 0 && !stopped && backend_->chief()) return NoExamples();
  return summary;
}

Status SparseTrainer::NoExamples() const {
  const io::CorruptionStats corruption = queue_->corruption();
  const std::vector<std::string>& files = options_.train.files;
  return Invalid(
      "the training data has no examples: " + files.front() +
      (files.size() > 1 ? " and the other files" : "") +
      (corruption.events == 0 ? "" : "; all were skipped, the first: " + corruption.first));
}

Result<std::optional<StepResult>> SparseTrainer::Step(TrainingState& state, uint64_t until) {
  return options_.hogwild > 1 ? HogwildStep(state, until) : BatchStep(state);
}

Result<std::optional<StepResult>> SparseTrainer::BatchStep(TrainingState& state) {
  profiler::MarkStep(state.steps);
  profiler::TraceScope span("step", profiler::Cat::kStep);
  const CsrBatch* batch = nullptr;
  ASSIGN_OR_RETURN(const bool more, queue_->Next(batch));
  if (!more) return std::optional<StepResult>();
  span.args().rows = static_cast<int64_t>(batch->rows());
  ++state.own.batches;
  state.own.examples += batch->rows();
  if (queue_->position().epoch != state.own.position.epoch) epoch_loss_ = epoch_weight_ = 0;
  state.own.position = queue_->position();
  backend_->SetResumePoint(state.own);
  BatchLearner& learner = backend_->learner();
  const bool is_last = state.own.examples >= max_own_examples_;
  const CsrBatch* next = learner.wants_next() && !is_last ? queue_->Peek() : nullptr;
  ASSIGN_OR_RETURN(const double loss, learner.Learn(*batch, next));
  if (!std::isfinite(loss)) {
    return Diverged(state.own.batches, state.own.examples, loss, options_.update.Rate());
  }
  const double weight = WeightOf(*batch);
  epoch_loss_ += loss;
  epoch_weight_ += weight;
  return std::optional(
      StepResult{.steps = 1, .examples = batch->rows(), .loss = loss, .weight = weight});
}

// Some thousand batches by several threads.
Result<std::optional<StepResult>> SparseTrainer::HogwildStep(TrainingState& state, uint64_t until) {
  const uint64_t examples = std::min(until - state.examples, kHogwildExamples);
  ASSIGN_OR_RETURN(const HogwildStretch stretch, RunHogwild(*backend_->local_store(), *kernels_,
                                                            *queue_, options_.hogwild, examples));
  if (stretch.examples == 0) return std::optional<StepResult>();
  state.own.batches += stretch.steps;
  state.own.examples += stretch.examples;
  state.own.position = queue_->position();
  if (!std::isfinite(stretch.loss)) {
    return Diverged(state.own.batches, state.own.examples, stretch.loss, options_.update.Rate());
  }
  return std::optional(StepResult{.steps = stretch.steps,
                                  .examples = stretch.examples,
                                  .loss = stretch.loss,
                                  .weight = stretch.weight});
}

Evaluation SparseTrainer::Evaluate(const TrainingState&) {
  sparse::WeightStore* store = backend_->remote_store();
  if (store) return test_set_->EvaluateInBackground(backend_->learner(), *store, *kernels_);
  return test_set_->Evaluate(backend_->learner());
}

// The pass over the data that the last example belongs to, from 1 on.
double SparseTrainer::Epoch(const TrainingState& state) const {
  return static_cast<double>(state.own.position.epoch + 1);
}

Status SparseTrainer::SaveModel(const std::string& path, ModelFormat format, io::AtPath at_path) {
  return trainer::SaveModel(backend_->Source(loop_->state().examples), path, format, at_path);
}

}  // namespace millrace::trainer
