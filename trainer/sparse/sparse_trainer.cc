// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/sparse_trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "io/record/byte_source.h"
#include "io/stream/input_files.h"
#include "profiler/trace.h"
#include "sparse/value_scale.h"
#include "trainer/sparse/hogwild_run.h"
#include "trainer/sparse/sparse_backend.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

// With servers an evaluation is a few large pulls, and not thousands of small ones.
constexpr size_t kRemoteTestRows = 1 << 16;
constexpr size_t kCheckedEntries = 1 << 16;    // of the test set, by CountUnknownKeys
constexpr uint64_t kHogwildExamples = 200000;  // between looks at the clock

double WeightOf(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

// Largest values that scales or, without normalisation, squares in a float are made for.
float ValueLimit(bool normalize) { return std::exp2(normalize ? sparse::kMaxExponent : 60.0f); }

void CountExtremeValues(const CsrBatch& batch, bool normalize, RunFacts& facts) {
  if (batch.values.empty()) return;
  const float limit = ValueLimit(normalize), low = 1 / limit;
  uint32_t huge = 0, tiny = 0;
  for (const float value : batch.values) {
    const float size = std::abs(value);
    huge += size > limit;
    tiny += size < low && size != 0;
  }
  facts.value_limit = limit;
  facts.values += batch.values.size();
  facts.tiny_values += tiny;
  if (huge > 0 && facts.huge_values == 0) {
    size_t i = 0;
    while (!(std::abs(batch.values[i]) > limit)) ++i;
    facts.first_huge = batch.values[i];
    const uint32_t col = batch.cols[i];
    facts.first_huge_key = io::KeyName(batch.compacted ? batch.keys[col] : col);
  }
  facts.huge_values += huge;
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
  ASSIGN_OR_RETURN(input_, SegmentInput::Open(options_.train, start.own));
  start_position_ = start.own.segments.front().position;
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
  const bool fresh = !backend_->start().resumed_step;
  if (summary->new_examples == 0 && fresh && !stopped && backend_->chief()) return NoExamples();
  return summary;
}

uint64_t SparseTrainer::EstimateExamples() {
  if (!train_bytes_) train_bytes_ = io::PlainBytes(options_.train.files);
  const io::InputStats input = input_->stats();
  // Later epochs may come from a cache, without bytes that are read.
  const std::vector<StreamSegment>& left = loop_->state().own.segments;
  const bool first_epoch = left.front().position.epoch == start_position_.epoch;
  const uint64_t rows = start_position_.rows + input.rows + input.shuffle_size +
                        input.batches_ready * options_.train.batch_size;
  if (first_epoch && input.bytes_read > 0) {
    estimated_epoch_examples_ =
        static_cast<uint64_t>(static_cast<double>(*train_bytes_) * static_cast<double>(rows) /
                              static_cast<double>(input.bytes_read));
  }
  const uint64_t all = estimated_epoch_examples_ * options_.train.epochs;
  if (options_.max_examples == 0 || all == 0) return std::max(all, options_.max_examples);
  return std::min(all, options_.max_examples);
}

Status SparseTrainer::NoExamples() const {
  const io::CorruptionStats corruption = input_->corruption();
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
  ASSIGN_OR_RETURN(const bool more, input_->Next(batch));
  if (!more) return std::optional<StepResult>();
  span.args().rows = static_cast<int64_t>(batch->rows());
  ++state.own.batches;
  state.own.examples += batch->rows();
  input_->Position(state.own);
  backend_->SetResumePoint(state.own);
  BatchLearner& learner = backend_->learner();
  const bool is_last = state.own.examples >= max_own_examples_;
  const CsrBatch* next = learner.wants_next() && !is_last ? input_->Peek() : nullptr;
  CountExtremeValues(*batch, options_.update.normalize, value_facts_);
  ASSIGN_OR_RETURN(const double loss, learner.Learn(*batch, next));
  if (!std::isfinite(loss)) {
    return Diverged(state.own.batches, state.own.examples, loss, options_.update.Rate());
  }
  const double weight = WeightOf(*batch);
  const uint64_t epoch = state.own.segments.front().position.epoch;
  if (std::exchange(loss_epoch_, epoch) != epoch) epoch_loss_ = epoch_weight_ = 0;
  epoch_loss_ += loss;
  epoch_weight_ += weight;
  return std::optional(StepResult{.steps = 1,
                                  .examples = batch->rows(),
                                  .loss = loss,
                                  .weight = weight,
                                  .positive = PositiveWeight(*batch)});
}

// Some thousand batches by several threads.
Result<std::optional<StepResult>> SparseTrainer::HogwildStep(TrainingState& state, uint64_t until) {
  const uint64_t examples = std::min(until - state.examples, kHogwildExamples);
  ASSIGN_OR_RETURN(const HogwildStretch stretch, RunHogwild(*backend_->local_store(), *kernels_,
                                                            *input_, options_.hogwild, examples));
  if (stretch.examples == 0) return std::optional<StepResult>();
  state.own.batches += stretch.steps;
  state.own.examples += stretch.examples;
  input_->Position(state.own);
  if (!std::isfinite(stretch.loss)) {
    return Diverged(state.own.batches, state.own.examples, stretch.loss, options_.update.Rate());
  }
  return std::optional(StepResult{.steps = stretch.steps,
                                  .examples = stretch.examples,
                                  .loss = stretch.loss,
                                  .weight = stretch.weight,
                                  .positive = stretch.positive});
}

Evaluation SparseTrainer::Evaluate(const TrainingState&) {
  sparse::WeightStore* store = backend_->remote_store();
  if (store) return test_set_->EvaluateInBackground(backend_->learner(), *store, *kernels_);
  return test_set_->Evaluate(backend_->learner());
}

// The pass over the data that the last example belongs to, from 1 on.
double SparseTrainer::Epoch(const TrainingState& state) const {
  return static_cast<double>(state.own.segments.front().position.epoch + 1);
}

std::vector<std::string> SparseTrainer::Warnings(const TrainSummary& summary) {
  const io::CorruptionStats corruption = input_->corruption();
  RunFacts facts = value_facts_;
  facts.corrupt_regions = corruption.events;
  facts.corrupt_bytes = corruption.bytes;
  facts.first_corruption = corruption.first;
  if (!backend_->chief() || summary.end == TrainSummary::End::kStopped) return RunWarnings(facts);
  const TrainingState& state = summary.state;
  facts.mean_loss = summary.mean_loss;
  facts.label_weight = state.own_weight;
  facts.positive_weight = state.own_positive;
  facts.partial = backend_->num_workers() > 1;
  facts.last_row = summary.last_row;
  facts.lowest_logloss = state.lowest_logloss;
  facts.lowest_logloss_step = state.lowest_logloss_step;
  facts.lowest_logloss_loss = state.lowest_logloss_loss;
  if (epoch_weight_ > 0) facts.last_epoch_loss = epoch_loss_ / epoch_weight_;
  facts.prunes_weights = options_.update.l1 > 0;
  // Without an answer there is no warning: the training is complete.
  if (test_set_ && !CountUnknownKeys(facts).ok()) facts.checked_examples = 0;
  return RunWarnings(facts);
}

Status SparseTrainer::CountUnknownKeys(RunFacts& facts) {
  TRACE_SCOPE("check_test_keys", profiler::Cat::kEvaluation);
  std::vector<uint64_t> entries;
  RETURN_IF_ERROR(test_set_->VisitFirst([&](const CsrBatch& batch) {
    for (size_t r = 0; r < batch.rows() && entries.size() < kCheckedEntries; ++r) {
      for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
        entries.push_back(batch.compacted ? batch.keys[batch.cols[i]] : batch.cols[i]);
      }
      ++facts.checked_examples;
    }
    return entries.size() < kCheckedEntries;
  }));
  std::sort(entries.begin(), entries.end());
  std::vector<uint64_t> keys;
  std::unique_copy(entries.begin(), entries.end(), std::back_inserter(keys));
  std::vector<float> weights(keys.size());
  sparse::WeightStore* store = backend_->remote_store();
  RETURN_IF_ERROR((store ? *store : *backend_->local_store()).Pull(keys, weights));
  uint64_t unknown_keys = 0, unknown_entries = 0;
  size_t entry = 0;
  for (size_t k = 0; k < keys.size(); ++k) {
    const size_t begin = entry;
    while (entry < entries.size() && entries[entry] == keys[k]) ++entry;
    if (weights[k] != 0) continue;
    ++unknown_keys;
    unknown_entries += entry - begin;
  }
  if (keys.empty()) return {};
  facts.unknown_keys = static_cast<double>(unknown_keys) / static_cast<double>(keys.size());
  facts.unknown_entries =
      static_cast<double>(unknown_entries) / static_cast<double>(entries.size());
  return {};
}

Status SparseTrainer::SaveModel(const std::string& path, ModelFormat format, io::AtPath at_path) {
  ModelSource source = backend_->Source(loop_->state().examples);
  source.info.input = io::RowFormat{options_.train.format, options_.train.rows};
  return trainer::SaveModel(source, path, format, at_path);
}

}  // namespace millrace::trainer
