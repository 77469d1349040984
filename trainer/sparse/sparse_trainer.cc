#include "trainer/sparse/sparse_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "io/stream/input_files.h"
#include "profiler/trace.h"
#include "trainer/run/chief_seconds.h"
#include "trainer/sparse/checkpoint.h"
#include "trainer/sparse/cluster_backend.h"
#include "trainer/sparse/hogwild_run.h"
#include "trainer/sparse/local_backend.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;

constexpr double kProgressSeconds = 0.1;
// With servers a test is a few large pulls, and not thousands of small ones.
constexpr size_t kClusterTestRows = 1 << 16;
constexpr uint64_t kHogwildExamples = 200000;  // between looks at the clock

Status DivergedError(const TrainingState& state, double loss, double rate) {
  char text[320];
  std::snprintf(
      text, sizeof text,
      "the loss of step %llu (example %llu) is %g: the model diverged. Expected a finite loss; "
      "try a lower rate, such as --learning_rate=%g (it was %g)",
      static_cast<unsigned long long>(state.steps), static_cast<unsigned long long>(state.examples),
      loss, rate / 10, rate);
  return Status(Code::kInvalid, text);
}

// The multiple of `every` that comes next.
uint64_t NextAfter(uint64_t examples, uint64_t every) {
  return every == 0 ? ~uint64_t{0} : (examples / every + 1) * every;
}

}  // namespace

Result<std::unique_ptr<SparseTrainer>> SparseTrainer::Create(TrainOptions options,
                                                             TrainObserver observer) {
  RETURN_IF_ERROR(options.Validate());
  auto trainer =
      std::make_unique<SparseTrainer>(Private{}, std::move(options), std::move(observer));
  RETURN_IF_ERROR(trainer->Prepare());
  return trainer;
}

Status SparseTrainer::Prepare() {
  RETURN_IF_ERROR(io::CheckInputFiles(options_.test.files));  // not only when all is learnt
  ASSIGN_OR_RETURN(kernels_, sparse::KernelsByName(options_.kernel));
  own_max_examples_ = options_.max_examples;
  if (options_.cluster) {
    RETURN_IF_ERROR(JoinCluster());
  } else {
    RETURN_IF_ERROR(MakeLocalHome());
  }
  options_.train.compact = options_.test.compact = home_->learner().wants_compact_batches();
  options_.train.start = place_.position;
  options_.train.should_stop = options_.test.should_stop = observer_.should_stop;
  ASSIGN_OR_RETURN(queue_, io::InputQueue::Open(options_.train));
  if (place_.input_fingerprint != 0 && queue_->fingerprint() != place_.input_fingerprint) {
    return Invalid(
        "resume: the training files are not those of the checkpoint (their number, order, sizes or "
        "content differ)");
  }
  place_.input_fingerprint = state_.input_fingerprint = queue_->fingerprint();
  state_.options_digest = OptionsDigest(options_);
  if (!options_.test.files.empty() && home_->chief()) {
    test_set_ = std::make_unique<TestSet>(options_.test, options_.test_cache_bytes);
    if (options_.cluster) test_set_->Preload();
  }
  schedule_.emplace(options_.eval_every, state_.tested_at);
  early_stop_.emplace(options_.early_stop, state_.early_stop);
  next_checkpoint_ = NextAfter(state_.examples, options_.checkpoint_every);
  return {};
}

Status SparseTrainer::MakeLocalHome() {
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(options_.shape, options_.update));
  if (options_.resume) RETURN_IF_ERROR(Restore(*store));
  if (!resumed_step_ && !options_.model_in.empty()) {
    RETURN_IF_ERROR(WarmStart(options_.model_in, *store));
  }
  auto home = std::make_unique<LocalHome>(std::move(store), *kernels_, options_.kernel == "auto",
                                          options_.checkpoints);
  local_store_ = &home->store();
  home_ = std::move(home);
  place_ = {.examples = state_.examples,
            .position = state_.position,
            .input_fingerprint = state_.input_fingerprint};
  return {};
}

// Each worker learns from its own part of the data, and from its share of max_examples.
Status SparseTrainer::JoinCluster() {
  const ClusterOptions& cluster = *options_.cluster;
  options_.train.shard = cluster.worker;
  options_.train.num_shards = cluster.num_workers;
  options_.test.batch_size = std::max(options_.test.batch_size, kClusterTestRows);
  if (options_.max_examples > 0) {
    const bool one_more = cluster.worker < options_.max_examples % cluster.num_workers;
    own_max_examples_ = options_.max_examples / cluster.num_workers + (one_more ? 1 : 0);
  }
  ClusterStart start;
  start.job = {.num_workers = cluster.num_workers,
               .num_shards = cluster.servers.servers.size(),
               .mode = cluster.mode,
               .staleness = cluster.staleness,
               .replicas_to_aggregate = cluster.replicas_to_aggregate,
               .num_features = options_.shape.num_features,
               .update = options_.update,
               .zstd = cluster.zstd,
               .bf16 = cluster.bf16,
               .data = OptionsDigest(options_)};
  start.resume = options_.resume;
  start.model_in = options_.model_in;
  start.before_start = observer_.before_start;
  start.on_note = observer_.on_note;
  start.should_stop = observer_.should_stop;
  ASSIGN_OR_RETURN(auto home, ClusterHome::Join(cluster, *kernels_, start));
  clock_offset_ns_ = home->clock_offset_ns();
  if (home->state()) {
    state_ = *home->state();
    resumed_step_ = state_.steps;
  }
  if (home->place()) place_ = *home->place();
  home_ = std::move(home);
  return {};
}

Status SparseTrainer::Restore(sparse::LocalStore& store) {
  ASSIGN_OR_RETURN(const LatestCheckpoint restored,
                   LoadLatestCheckpoint(options_.checkpoints, store));
  for (const std::string& warning : restored.warnings) {
    if (observer_.on_note) observer_.on_note(warning);
  }
  if (!restored.state) {
    if (observer_.on_note)
      observer_.on_note(options_.checkpoints + " has no checkpoint: starting from the beginning");
    return {};
  }
  state_ = *restored.state;
  if (state_.options_digest != OptionsDigest(options_)) {
    return Invalid("resume: the order of the data would not be that of the checkpoint");
  }
  resumed_step_ = state_.steps;
  return {};
}

// This process's part of the work is done, or the chief has ended the job.
bool SparseTrainer::Finished() const {
  if (home_->stopped()) return true;
  return own_max_examples_ > 0 && place_.examples >= own_max_examples_;
}

// A step of this process or, once it has learnt its part, of the others. False when there is none.
Result<bool> SparseTrainer::NextStep() {
  has_learnt_ = has_learnt_ || Finished();
  if (!has_learnt_) {
    ASSIGN_OR_RETURN(const bool more, options_.hogwild > 1 ? AdvanceHogwild() : Advance());
    if (more) return true;
    has_learnt_ = true;
  }
  ASSIGN_OR_RETURN(const bool more, home_->Accompany(place_));
  if (more) SyncWithJob();
  return more;
}

Result<TrainSummary> SparseTrainer::Run() {
  start_s_ = row_start_s_ = observer_.now_s();
  const double earlier_seconds = state_.seconds;
  const uint64_t earlier_examples = state_.examples;
  bool early = early_stop_->due();  // the test before the checkpoint has said so
  while (!home_->stopped() && !early) {
    const Result<bool> more = NextStep();
    state_.seconds = earlier_seconds + observer_.now_s() - start_s_;
    if (more.status().code() == Code::kCancelled && Stopping()) {
      RETURN_IF_ERROR(Stop());
      break;
    }
    RETURN_IF_ERROR(more.status());
    if (!*more) break;
    const Status tested = MayBeDue() ? TestAndCheckpoint(early) : Status();
    const bool cancelled = tested.code() == Code::kCancelled && Stopping();
    if (!cancelled) RETURN_IF_ERROR(tested);
    if (Stopping()) {
      RETURN_IF_ERROR(Stop());
      break;
    }
    if (test_.pending() && test_.done()) RETURN_IF_ERROR(TakeTest());
    ShowProgress();
  }
  profiler::MarkStep(state_.steps);
  if (summary_.end != TrainSummary::End::kStopped) RETURN_IF_ERROR(End(early));
  summary_.steps = state_.steps;
  summary_.examples = state_.examples;
  summary_.examples_here = state_.examples - earlier_examples;
  summary_.seconds = observer_.now_s() - start_s_;
  summary_.mean_loss = state_.total_weight > 0 ? state_.total_loss / state_.total_weight : 0;
  summary_.input = queue_->stats();
  summary_.corruption = queue_->corruption();
  summary_.job = home_->Report();
  return summary_;
}

// All data is learnt from, or the run ends early. The last test, when all workers are done.
Status SparseTrainer::End(bool early) {
  if (early) RETURN_IF_ERROR(home_->StopJob());
  const Status finished = home_->FinishTraining();
  if (finished.code() == Code::kCancelled && Stopping()) return Stop();
  RETURN_IF_ERROR(finished);
  SyncWithJob();
  if (state_.examples == 0 && home_->chief()) return NoExamples();
  const Status tested = TestIfDue(/*at_end=*/true).status();
  if (tested.code() == Code::kCancelled && Stopping()) return Stop();
  if (!tested.ok()) return Salvage(tested);
  if (early) summary_.end = TrainSummary::End::kEarlyStop;
  return {};
}

Status SparseTrainer::NoExamples() const {
  const io::CorruptionStats corruption = queue_->corruption();
  const std::vector<std::string>& files = options_.train.files;
  return Invalid(
      "the training data has no examples: " + files.front() +
      (files.size() > 1 ? " and the other files" : "") +
      (corruption.events == 0 ? "" : "; all were skipped, the first: " + corruption.first));
}

bool SparseTrainer::Stopping() const {
  return observer_.should_stop && observer_.should_stop() && !home_->stopped();
}

// What a job has learnt since the last look counts as learnt.
void SparseTrainer::SyncWithJob() {
  const std::optional<ps::JobProgress> job = home_->progress();
  if (!job) return;
  row_examples_ += job->examples - state_.examples;
  state_.row_loss += job->loss - state_.total_loss;
  state_.row_weight += job->weight - state_.total_weight;
  state_.steps = job->step;
  state_.examples = job->examples;
  state_.total_loss = job->loss;
  state_.total_weight = job->weight;
}

// Whether a test or a checkpoint can be due. A job's progress is heard of a step or two late, and
// each step has a batch of each worker.
bool SparseTrainer::MayBeDue() const {
  if (!home_->chief()) return false;
  const uint64_t step =
      options_.cluster ? options_.cluster->num_workers * options_.train.batch_size : 0;
  const uint64_t examples = state_.examples + 2 * step;
  return schedule_->Due(examples) || examples >= next_checkpoint_;
}

Status SparseTrainer::TestAndCheckpoint(bool& early) {
  RETURN_IF_ERROR(home_->Settle());
  SyncWithJob();
  const Result<bool> tested = TestIfDue(/*at_end=*/false);
  if (!tested.ok()) return Salvage(tested.status());
  early = *tested;
  return state_.examples >= next_checkpoint_ ? Checkpoint() : Status();
}

// One step. False when there is no more data.
Result<bool> SparseTrainer::Advance() {
  profiler::MarkStep(state_.steps);
  profiler::TraceScope step("step", profiler::Cat::kStep);
  const CsrBatch* batch = nullptr;
  ASSIGN_OR_RETURN(const bool more, queue_->Next(batch));
  if (more) {
    step.args().rows = static_cast<int64_t>(batch->rows());
    RETURN_IF_ERROR(Learn(*batch));
  }
  return more;
}

// Some thousand steps, up to the next test, checkpoint or the end.
Result<bool> SparseTrainer::AdvanceHogwild() {
  uint64_t until = state_.examples + kHogwildExamples;
  until = std::min({until, schedule_->next(), next_checkpoint_});
  if (options_.max_examples > 0) until = std::min(until, options_.max_examples);
  ASSIGN_OR_RETURN(
      const HogwildStretch stretch,
      RunHogwild(*local_store_, *kernels_, *queue_, options_.hogwild, until - state_.examples));
  state_.steps += stretch.steps;
  if (stretch.examples > 0)
    RETURN_IF_ERROR(CountLoss(stretch.loss, stretch.weight, stretch.examples));
  return !stretch.ended || stretch.examples > 0;
}

Status SparseTrainer::Learn(const CsrBatch& batch) {
  BatchLearner& learner = home_->learner();
  place_.examples += batch.rows();
  place_.position = queue_->position();
  home_->WillLearn(place_);
  const int lookahead = Finished() ? 0 : learner.lookahead();
  const BatchLearner::Coming coming = {.next = lookahead > 0 ? queue_->Peek() : nullptr,
                                       .after = lookahead > 1 ? queue_->PeekReady() : nullptr};
  ASSIGN_OR_RETURN(const double loss, learner.Learn(batch, coming));
  if (options_.cluster) {
    if (!std::isfinite(loss)) return DivergedError(state_, loss, options_.update.Rate());
    state_.position = place_.position;
    SyncWithJob();
    return {};
  }
  ++state_.steps;
  double weight = 0;
  for (const float w : batch.weights) weight += static_cast<double>(w);
  if (batch.weights.empty()) weight = static_cast<double>(batch.rows());
  return CountLoss(loss, weight, batch.rows());
}

Status SparseTrainer::CountLoss(double loss, double weight, uint64_t examples) {
  state_.examples += examples;
  if (!std::isfinite(loss)) return DivergedError(state_, loss, options_.update.Rate());
  state_.row_loss += loss;
  state_.row_weight += weight;
  state_.total_loss += loss;
  state_.total_weight += weight;
  state_.position = queue_->position();
  place_.examples = state_.examples;
  row_examples_ += examples;
  return {};
}

// True when the run should end early.
Result<bool> SparseTrainer::TestIfDue(bool at_end) {
  const bool due = at_end ? schedule_->DueAtEnd(state_.examples) : schedule_->Due(state_.examples);
  if (at_end || due) RETURN_IF_ERROR(TakeTest());
  if (!test_set_ || !due) return false;
  MetricsRow row;
  row.step = state_.steps;
  row.examples = state_.examples;
  row.epoch = static_cast<double>(state_.position.epoch + 1);
  row.seconds = state_.seconds;
  row.loss = state_.row_weight > 0 ? state_.row_loss / state_.row_weight : 0;
  row.examples_per_s = RowRate(row_examples_, observer_.now_s() - row_start_s_);
  tested_row_ = row;
  bool stop = false;
  ASSIGN_OR_RETURN(const bool begun, at_end ? Result<bool>(false) : BeginTest());
  if (!begun) {
    ASSIGN_OR_RETURN(const BinaryMetrics metrics, test_set_->Test(home_->learner()));
    ASSIGN_OR_RETURN(stop, Tested(metrics, row));
  }
  schedule_->Tested(state_.examples);
  state_.tested_at = schedule_->tested_at();
  state_.row_loss = state_.row_weight = 0;
  row_examples_ = 0;
  row_start_s_ = observer_.now_s();
  return stop;
}

// In the background, where that lets others go on and nothing hangs on the result. False: not so.
Result<bool> SparseTrainer::BeginTest() {
  sparse::WeightStore* store = home_->remote_store();
  if (!store || options_.early_stop.enabled()) return false;
  ASSIGN_OR_RETURN(const std::span<const CsrBatch> batches, test_set_->Batches());
  if (batches.empty()) return false;
  RETURN_IF_ERROR(test_.Begin(batches, *store, *kernels_));
  return true;
}

// The result of the test in the background, if there is one.
Status SparseTrainer::TakeTest() {
  if (!test_.pending()) return {};
  const BinaryMetrics metrics = test_.Take();
  RETURN_IF_ERROR(test_set_->CheckNotEmpty(metrics));
  return Tested(metrics, tested_row_).status();
}

Result<bool> SparseTrainer::Tested(const BinaryMetrics& metrics, MetricsRow row) {
  row.test = metrics;
  ++state_.tests;
  const bool stop = early_stop_->Update(row.step, row.test);
  state_.early_stop = early_stop_->state();
  summary_.last_test = row;
  if (observer_.on_test) RETURN_IF_ERROR(observer_.on_test(row));
  return stop;
}

// Asked to end early: with a checkpoint, if there is a place for it and something to keep. The
// chief ends the whole job; other workers wait for it to do so.
Status SparseTrainer::Stop() {
  if (!home_->chief()) return WaitForChief();
  summary_.end = TrainSummary::End::kStopped;
  RETURN_IF_ERROR(home_->StopJob());
  RETURN_IF_ERROR(home_->Settle());
  SyncWithJob();
  RETURN_IF_ERROR(TakeTest());
  return options_.checkpoints.empty() || state_.steps == 0 ? Status() : Checkpoint();
}

// The chief has been asked as well, if the whole job was. If not, this worker leaves like one that
// was killed: its part is not learnt, so it must not count as finished.
Status SparseTrainer::WaitForChief() {
  const double until_s = observer_.now_s() + kChiefSeconds;
  bool learnt = false;
  while (!Finished() && !learnt && !home_->gave_up() && observer_.now_s() < until_s) {
    const Result<bool> more = Advance();
    if (more.status().code() == Code::kCancelled && !home_->gave_up()) {  // no input comes
      RETURN_IF_ERROR(home_->Settle());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    RETURN_IF_ERROR(more.status());
    learnt = !*more;
  }
  if (!Finished() && !learnt) return Cancelled("interrupted: this worker leaves its job");
  if (!home_->stopped()) return {};  // it came to its end all the same
  summary_.end = TrainSummary::End::kStopped;
  return home_->FinishTraining();
}

// A test ended the run, which is no fault of what was learnt: it is kept, if there is a place.
Status SparseTrainer::Salvage(const Status& error) {
  if (error.code() == Code::kCancelled || options_.cluster) return error;
  if (options_.checkpoints.empty() || !Checkpoint().ok()) return error;
  return Status(error.code(), error.message() + " (the checkpoint of step " +
                                  std::to_string(state_.steps) +
                                  " keeps what was learnt: --resume goes on from there)");
}

Status SparseTrainer::Checkpoint() {
  TRACE_SCOPE("checkpoint", profiler::Cat::kCheckpoint);
  RETURN_IF_ERROR(TakeTest());
  if (observer_.before_checkpoint) RETURN_IF_ERROR(observer_.before_checkpoint());
  RETURN_IF_ERROR(home_->Checkpoint(state_));
  next_checkpoint_ = NextAfter(state_.examples, options_.checkpoint_every);
  return {};
}

Status SparseTrainer::SaveModel(const std::string& path, ModelFormat format) {
  return trainer::SaveModel(home_->Source(state_.examples), path, format);
}

void SparseTrainer::ShowProgress() {
  if (!observer_.on_progress || (state_.steps % 16 != 0 && options_.hogwild <= 1)) return;
  const double now_s = observer_.now_s();
  if (now_s < next_progress_s_) return;
  next_progress_s_ = now_s + kProgressSeconds;
  observer_.on_progress(state_.examples, state_.total_loss / state_.total_weight);
}

}  // namespace millrace::trainer
