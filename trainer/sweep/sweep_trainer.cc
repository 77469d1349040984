// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/sweep_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "io/stream/input_files.h"
#include "profiler/trace.h"
#include "trainer/run/run_warnings.h"
#include "trainer/sparse/batch_learner.h"
#include "trainer/sparse/checkpoint.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

double WeightOf(const CsrBatch& batch) {
  if (batch.weights.empty()) return static_cast<double>(batch.rows());
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

// As in BinaryMetricsSum.
double LossOf(float margin, bool positive) {
  const double size = std::abs(static_cast<double>(margin));
  return std::log1p(std::exp(-size)) + ((margin > 0) == positive ? 0 : size);
}

double Lowest(double a, double b) { return b < a || std::isnan(a) ? b : a; }

}  // namespace

Status SweepOptions::Validate() const {
  if (models.size() < 2) {
    return Invalid("sweep: expected 2 models or more, found " + std::to_string(models.size()));
  }
  for (const TrainOptions& own : models) {
    RETURN_IF_ERROR(own.Validate());
    if (own.hogwild > 1) return Invalid("hogwild: expected one thread in a sweep");
    if (own.resume || own.checkpoint_every > 0) {
      return Invalid("a sweep has no checkpoints: expected no resume and no checkpoint_every");
    }
  }
  return {};
}

const char* SweepEndName(SweepEnd end) {
  switch (end) {
    case SweepEnd::kDone:
      return "done";
    case SweepEnd::kEarlyStop:
      return "early_stop";
    case SweepEnd::kDropped:
      return "dropped";
    case SweepEnd::kDiverged:
      return "diverged";
  }
  return "";
}

const char* SweepResultName(SweepResultOf result) {
  switch (result) {
    case SweepResultOf::kBest:
      return "best";
    case SweepResultOf::kTie:
      return "tie";
    case SweepResultOf::kWorse:
      return "worse";
    case SweepResultOf::kUnknown:
      return "";
  }
  return "";
}

double SweptModel::MeanLoss() const {
  return state.total_weight > 0 ? state.total_loss / state.total_weight
                                : std::numeric_limits<double>::quiet_NaN();
}

Result<std::unique_ptr<SweepTrainer>> SweepTrainer::Create(SweepOptions options,
                                                           SweepObserver observer) {
  RETURN_IF_ERROR(options.Validate());
  auto sweep = std::make_unique<SweepTrainer>(Private{}, std::move(options), std::move(observer));
  RETURN_IF_ERROR(sweep->Prepare());
  return sweep;
}

SweepTrainer::SweepTrainer(Private, SweepOptions options, SweepObserver observer)
    : options_(std::move(options)),
      observer_(std::move(observer)),
      models_(options_.models.size()),
      tracks_(options_.models.size()),
      losses_(options_.models.size()),
      next_halving_(options_.halving > 0 ? options_.halving : kNoLimit),
      max_examples_(OwnExamples(options_.models.front().max_examples, 0, 1)) {}

Status SweepTrainer::Prepare() {
  TrainOptions common = options_.models.front();
  RETURN_IF_ERROR(io::CheckInputFiles(common.test.files));
  if (common.eval_every > 0) {
    RETURN_IF_ERROR(io::CheckReadableAgain(common.test.files, "eval_every = 0"));
  }
  ASSIGN_OR_RETURN(set_,
                   ModelSet::Create(options_.models, observer_.on_note, options_.shares_slots));
  TrainingState start = set_->start();
  for (size_t m = 0; m < models_.size(); ++m) {
    models_[m].state = start;
    tracks_[m].early_stop = EarlyStop(common.early_stop, start.early_stop);
  }
  common.train.should_stop = common.test.should_stop = observer_.should_stop;
  common.train.compact = common.test.compact = set_->wants_compact_batches();
  common.train.rows.centers = common.test.rows.centers = common.update.centers;
  ASSIGN_OR_RETURN(input_, SegmentInput::Open(common.train, start.own));
  if (!common.test.files.empty()) {
    test_set_ = std::make_unique<TestSet>(common.test, common.test_cache_bytes);
  }
  TrainObserver observer;
  observer.on_evaluation = [this](const MetricsRow& row) { return TakeRow(row); };
  observer.on_progress = [this](uint64_t examples, double) {
    if (observer_.on_progress) observer_.on_progress(examples, LowestLoss());
  };
  observer.should_stop = observer_.should_stop;
  observer.now_s = observer_.now_s;
  TrainingTask& task = *this;
  Backend& backend = *this;
  loop_ = std::make_unique<TrainingLoop>(
      LoopOptions{.max_own_examples = max_examples_, .eval_every = common.eval_every},
      std::move(observer), task, backend, std::move(start));
  return {};
}

Result<TrainSummary> SweepTrainer::Run() {
  ASSIGN_OR_RETURN(TrainSummary summary, loop_->Run());
  profiler::MarkStep(loop_->state().steps);
  for (size_t m = 0; m < models_.size(); ++m) {
    if (active(m)) CopyShared(models_[m].state);
  }
  if (summary.new_examples == 0 && summary.end == TrainSummary::End::kDone) {
    return Invalid("the training data has no examples: " +
                   options_.models.front().train.files.front());
  }
  return summary;
}

double SweepTrainer::Epoch(const TrainingState& state) const {
  return static_cast<double>(state.own.segments.front().position.epoch + 1);
}

// What all models have in common that still train.
void SweepTrainer::CopyShared(TrainingState& to) const {
  const TrainingState& now = loop_->state();
  to.steps = now.steps + uncounted_.steps;
  to.examples = now.examples + uncounted_.examples;
  to.seconds = now.seconds;
  to.own = now.own;
  to.own_weight = now.own_weight + uncounted_.weight;
  to.own_positive = now.own_positive + uncounted_.positive;
  to.evaluated_at = now.evaluated_at;
}

Result<std::optional<StepResult>> SweepTrainer::Step(TrainingState& state, uint64_t) {
  if (set_->active_count() == 0) return std::optional<StepResult>();
  profiler::MarkStep(state.steps);
  profiler::TraceScope span("step", profiler::Cat::kStep);
  const CsrBatch* batch = nullptr;
  ASSIGN_OR_RETURN(const bool more, input_->Next(batch));
  if (!more) return std::optional<StepResult>();
  span.args().rows = static_cast<int64_t>(batch->rows());
  ++state.own.batches;
  state.own.examples += batch->rows();
  input_->Position(state.own);
  const bool is_last = state.own.examples >= max_examples_;
  const CsrBatch* next = set_->wants_next() && !is_last ? input_->Peek() : nullptr;
  RETURN_IF_ERROR(set_->Learn(*batch, next, losses_));
  uncounted_ = {.steps = 1,
                .examples = batch->rows(),
                .weight = WeightOf(*batch),
                .positive = PositiveWeight(*batch)};
  RETURN_IF_ERROR(TakeLosses(uncounted_.weight));
  if (state.own.examples >= next_halving_) Halve();
  while (state.own.examples >= next_halving_) next_halving_ *= 2;
  return std::optional(std::exchange(uncounted_, {}));
}

// Each model counts for itself, in the order of TrainingLoop. A loss that is not finite ends it.
Status SweepTrainer::TakeLosses(double weight) {
  for (size_t m = 0; m < models_.size(); ++m) {
    if (!active(m)) continue;
    if (!std::isfinite(losses_[m])) {
      EndModel(m, SweepEnd::kDiverged);
      continue;
    }
    TrainingState& own = models_[m].state;
    own.row_loss += losses_[m];
    own.row_weight += weight;
    own.total_loss += losses_[m];
    own.total_weight += weight;
    tracks_[m].window_loss += losses_[m];
    tracks_[m].window_weight += weight;
  }
  if (set_->active_count() > 0) return {};
  const bool all_diverged = std::all_of(models_.begin(), models_.end(), [](const SweptModel& m) {
    return m.end == SweepEnd::kDiverged;
  });
  if (!all_diverged) return {};
  const ResumePoint& own = loop_->state().own;
  return Diverged(own.batches, own.examples, losses_.front(),
                  options_.models.front().update.Rate());
}

void SweepTrainer::EndModel(size_t model, SweepEnd end) {
  models_[model].end = end;
  CopyShared(models_[model].state);
  if (end == SweepEnd::kDropped || end == SweepEnd::kDiverged) {
    set_->Drop(model);
  } else {
    set_->Freeze(model);
  }
}

// Of models with equal losses the first ones stay.
void SweepTrainer::Halve() {
  std::vector<std::pair<double, size_t>> training;
  for (size_t m = 0; m < models_.size(); ++m) {
    Track& track = tracks_[m];
    if (active(m)) training.emplace_back(track.window_loss / track.window_weight, m);
    track.window_loss = track.window_weight = 0;
  }
  std::sort(training.begin(), training.end());
  const size_t stay = (training.size() + 1) / 2;
  for (size_t i = stay; i < training.size(); ++i) {
    EndModel(training[i].second, SweepEnd::kDropped);
  }
}

Evaluation SweepTrainer::Evaluate(const TrainingState&) {
  return std::async(std::launch::deferred, [this] { return ScoreAll(); });
}

// The metrics of all models that train; those of the leader are the result.
Result<std::vector<NamedValue>> SweepTrainer::ScoreAll() {
  TRACE_SCOPE("evaluate", profiler::Cat::kEvaluation);
  if (set_->active_count() == 0) return std::vector<NamedValue>();  // the last one has diverged
  RETURN_IF_ERROR(ScoreTestSet(/*counts_metrics=*/true));
  for (size_t m = 0; m < models_.size(); ++m) {
    if (!active(m)) continue;
    ASSIGN_OR_RETURN(tracks_[m].metrics, test_set_->MetricsOf(tracks_[m].test));
    tracks_[m].test = BinaryMetricsSum();
  }
  return tracks_[Leader()].metrics;
}

// Also compares the models pair by pair, if there is no later call.
Status SweepTrainer::ScoreTestSet(bool counts_metrics) {
  const bool compares = !counts_metrics || options_.models.front().eval_every == 0;
  compared_.clear();
  for (size_t m = 0; m < models_.size(); ++m) {
    const SweepEnd end = models_[m].end;
    if (end == SweepEnd::kDone || end == SweepEnd::kEarlyStop) compared_.push_back(m);
  }
  pairs_.emplace(compared_.size());
  paired_auc_.emplace(compared_.size());
  std::vector<size_t> place(models_.size());
  for (size_t i = 0; i < compared_.size(); ++i) place[compared_[i]] = i;
  std::vector<std::vector<double>> losses(compared_.size());
  std::vector<std::vector<float>> scores(compared_.size());
  return test_set_->ForEach([&](const CsrBatch& batch) {
    RETURN_IF_ERROR(set_->Score(batch, [&](size_t model, std::span<const float> margins) {
      if (counts_metrics && active(model)) {
        tracks_[model].test.Add(margins, batch.labels, batch.weights);
      }
      if (!compares) return;
      std::vector<double>& own = losses[place[model]];
      own.resize(margins.size());
      for (size_t r = 0; r < margins.size(); ++r) own[r] = LossOf(margins[r], batch.labels[r] > 0);
      scores[place[model]].assign(margins.begin(), margins.end());
    }));
    if (!compares) return Status();
    const std::vector<std::span<const double>> all_losses(losses.begin(), losses.end());
    const std::vector<std::span<const float>> all_scores(scores.begin(), scores.end());
    pairs_->Add(all_losses, batch.weights);
    paired_auc_->Add(all_scores, batch.labels, batch.weights);
    return Status();
  });
}

// As TrainingLoop::TakeEvaluation does for a single model.
Status SweepTrainer::TakeRow(const MetricsRow& common) {
  if (set_->active_count() == 0) return {};
  const size_t leader = Leader();
  MetricsRow leading;
  for (size_t m = 0; m < models_.size(); ++m) {
    if (!active(m)) continue;
    TrainingState& own = models_[m].state;
    MetricsRow row = common;
    row.loss = own.row_weight > 0 ? own.row_loss / own.row_weight : 0;
    row.test = tracks_[m].metrics;
    EarlyStop& early_stop = tracks_[m].early_stop;
    early_stop.Update(row);
    ++own.evaluations;
    own.early_stop = early_stop.state();
    const double logloss = row.Metric("logloss");
    if (!std::isnan(logloss) && !(own.lowest_logloss <= logloss)) {
      own.lowest_logloss = logloss;
      own.lowest_logloss_step = row.step;
      own.lowest_logloss_loss = row.loss;
    }
    own.row_loss = own.row_weight = 0;
    models_[m].rows.push_back(row);
    if (observer_.on_row) RETURN_IF_ERROR(observer_.on_row(m, row));
    if (m == leader) leading = row;
    if (!early_stop.due()) continue;
    EndModel(m, SweepEnd::kEarlyStop);
    own.evaluated_at = own.examples;
  }
  return observer_.on_leader ? observer_.on_leader(leader, leading) : Status();
}

// Of the models that train.
size_t SweepTrainer::Leader() const {
  size_t leader = models_.size();
  double lowest = 0;
  for (size_t m = 0; m < models_.size(); ++m) {
    if (!active(m)) continue;
    const double logloss = MetricsRow{.test = tracks_[m].metrics}.Metric("logloss");
    if (leader < models_.size() && !(logloss < lowest)) continue;
    leader = m;
    lowest = logloss;
  }
  CHECK(leader < models_.size());
  return leader;
}

double SweepTrainer::LowestLoss() const {
  double lowest = std::numeric_limits<double>::quiet_NaN();
  for (const SweptModel& model : models_) lowest = Lowest(lowest, model.MeanLoss());
  return lowest;
}

size_t SweepTrainer::BestModel() const {
  size_t best = models_.size();
  double lowest = 0;
  for (size_t m = 0; m < models_.size(); ++m) {
    const SweptModel& model = models_[m];
    if (model.end == SweepEnd::kDropped || model.end == SweepEnd::kDiverged) continue;
    const double loss =
        test_set_ && !model.rows.empty() ? model.rows.back().Metric("logloss") : model.MeanLoss();
    if (best < models_.size() && !(loss < lowest)) continue;
    best = m;
    lowest = loss;
  }
  CHECK(best < models_.size());  // TakeLosses
  return best;
}

Result<SweepResult> SweepTrainer::Compare() {
  SweepResult result = {.best = BestModel(),
                        .models = std::vector<SweepComparison>(models_.size())};
  result.models[result.best].result = SweepResultOf::kBest;
  if (!test_set_) return result;
  if (!pairs_ || options_.models.front().eval_every > 0) {
    RETURN_IF_ERROR(ScoreTestSet(/*counts_metrics=*/false));
  }
  const auto place = [&](size_t model) {
    return static_cast<size_t>(std::find(compared_.begin(), compared_.end(), model) -
                               compared_.begin());
  };
  const double factor = SimultaneousFactor(compared_.size());
  const auto interval = [&](PairedLosses::Difference d) -> SweepComparison::Interval {
    return {
        .difference = d.mean, .low = d.mean - factor * d.error, .high = d.mean + factor * d.error};
  };
  const std::vector<PairedLosses::Difference> auc = paired_auc_->Against(place(result.best));
  for (const size_t m : compared_) {
    SweepComparison& own = result.models[m];
    own.logloss = interval(pairs_->Of(place(m), place(result.best)));
    own.auc = interval(auc[place(m)]);
    if (m == result.best || std::isnan(own.logloss.low)) continue;
    own.result = own.logloss.low <= 0 ? SweepResultOf::kTie : SweepResultOf::kWorse;
  }
  return result;
}

Result<sparse::LocalStore*> SweepTrainer::StoreOf(size_t model) {
  ASSIGN_OR_RETURN(sparse::LocalStore * store, set_->Store(model));
  store->set_steps(models_[model].state.steps);
  return store;
}

Status SweepTrainer::SaveModel(size_t model, const std::string& path, ModelFormat format,
                               io::AtPath at_path) {
  ASSIGN_OR_RETURN(const sparse::LocalStore* store, StoreOf(model));
  const TrainOptions& own = options_.models[model];
  ModelSource source = SourceOf(*store, models_[model].state.examples);
  source.info.input = io::RowFormat{own.train.format, own.train.rows};
  return trainer::SaveModel(source, path, format, at_path);
}

Status SweepTrainer::SaveState(size_t model, const std::string& checkpoints) {
  ASSIGN_OR_RETURN(const sparse::LocalStore* store, StoreOf(model));
  const TrainOptions& own = options_.models[model];
  RunCheckpoints folder(checkpoints, OptionsDigest(own),
                        io::RowFormat{own.train.format, own.train.rows});
  return folder.Save(*store, models_[model].state);
}

std::vector<std::string> SweepTrainer::Warnings(size_t model, const TrainSummary& summary) {
  const io::CorruptionStats corruption = input_->corruption();
  RunFacts facts;
  facts.corrupt_regions = corruption.events;
  facts.corrupt_bytes = corruption.bytes;
  facts.first_corruption = corruption.first;
  if (summary.end == TrainSummary::End::kStopped) return RunWarnings(facts);
  const TrainingState& state = models_[model].state;
  facts.mean_loss = models_[model].MeanLoss();
  facts.label_weight = state.own_weight;
  facts.positive_weight = state.own_positive;
  if (!models_[model].rows.empty()) facts.last_row = models_[model].rows.back();
  facts.lowest_logloss = state.lowest_logloss;
  facts.lowest_logloss_step = state.lowest_logloss_step;
  facts.lowest_logloss_loss = state.lowest_logloss_loss;
  facts.prunes_weights = options_.models[model].update.l1 > 0;
  return RunWarnings(facts);
}

}  // namespace millrace::trainer
