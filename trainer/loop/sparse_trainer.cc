#include "trainer/loop/sparse_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "profiler/trace.h"
#include "trainer/loop/hogwild_run.h"
#include "trainer/model/model_file.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using io::Result;
using io::Status;

constexpr double kProgressSeconds = 0.1;
constexpr uint64_t kHogwildExamples = 200000;  // between looks at the clock

Status DivergedError(const TrainingState& state, double loss, double rate) {
  char text[320];
  std::snprintf(
      text, sizeof text,
      "the loss of step %llu (example %llu) is %g: the model diverged. Expected a finite loss; "
      "try a lower rate, such as --learning_rate=%g (it was %g)",
      static_cast<unsigned long long>(state.steps), static_cast<unsigned long long>(state.examples),
      loss, rate / 10, rate);
  return io::Status(io::Code::kInvalid, text);
}

// What decides which rows come next, and what they mean: a resumed run must agree in it.
std::string OptionsDigest(const TrainOptions& options) {
  const io::InputOptions& in = options.train;
  const auto text = [](const char* name, uint64_t value) {
    return std::string(name) + std::to_string(value);
  };
  return text("batch_size=", in.batch_size) + text(" seed=", in.seed) +
         text(" shuffle_capacity=", in.shuffle_capacity) +
         text(" min_after_dequeue=", in.min_after_dequeue) + text(" interleave=", in.lanes) +
         text(" shard=", in.shard) + text(" of ", in.num_shards) +
         text(" block_bytes=", in.block_bytes) + " format=" + io::InputFormatName(in.format) +
         text(" index_base=", static_cast<uint64_t>(in.rows.index_base)) +
         text(" hash_bits=", static_cast<uint64_t>(in.rows.hash_bits)) +
         " features=" + in.rows.names.label + "," + in.rows.names.index + "," +
         in.rows.names.value + "," + in.rows.names.weight +
         " on_corrupt=" + (in.on_corrupt == io::OnCorrupt::kFail ? "fail" : "skip");
}

// The multiple of `every` that comes next.
uint64_t NextAfter(uint64_t examples, uint64_t every) {
  return every == 0 ? ~uint64_t{0} : (examples / every + 1) * every;
}

}  // namespace

Status TrainOptions::Validate() const {
  RETURN_IF_ERROR(train.Validate());
  if (!test.files.empty()) RETURN_IF_ERROR(test.Validate());
  RETURN_IF_ERROR(update.Validate());
  RETURN_IF_ERROR(sparse::KernelsByName(kernel).status());
  const bool plain_sgd = update.rule == sparse::Rule::kSgd && update.l2 == 0;
  if (hogwild > 1 && (!plain_sgd || io::NeedsWideKeys(shape.num_features) || kernel != "auto")) {
    return io::Invalid(
        "hogwild: expected --optimizer=sgd without --l2, --num_features up to 2^32 and "
        "--kernel=auto");
  }
  if (hogwild > 256)
    return io::Invalid("hogwild: expected at most 256 threads, found " + std::to_string(hogwild));
  if (test.files.empty() && eval_every > 0) {
    return io::Invalid("eval_every needs test data: expected --test=FILES, found none");
  }
  if (test.files.empty() && early_stop.enabled()) {
    return io::Invalid("early_stop needs test data: expected --test=FILES, found none");
  }
  if (checkpoint_every > 0 && checkpoints.empty()) {
    return io::Invalid("checkpoint_every needs a place for them: expected --run_dir, found none");
  }
  if (resume && checkpoints.empty()) return io::Invalid("resume: expected --run_dir, found none");
  if (resume && !model_in.empty()) {
    return io::Invalid(
        "resume goes on from a checkpoint and model_in from a model: expected one of them");
  }
  return {};
}

Result<std::unique_ptr<SparseTrainer>> SparseTrainer::Create(TrainOptions options,
                                                             TrainObserver observer) {
  RETURN_IF_ERROR(options.Validate());
  auto trainer =
      std::make_unique<SparseTrainer>(Private{}, std::move(options), std::move(observer));
  RETURN_IF_ERROR(trainer->Prepare());
  return trainer;
}

Status SparseTrainer::Prepare() {
  ASSIGN_OR_RETURN(kernels_, sparse::KernelsByName(options_.kernel));
  ASSIGN_OR_RETURN(store_, sparse::LocalStore::Create(options_.shape, options_.update));
  if (options_.resume) {
    RETURN_IF_ERROR(Restore());
  } else if (!options_.model_in.empty()) {
    RETURN_IF_ERROR(WarmStart(options_.model_in, *store_));
  }
  learner_ = MakeLocalLearner(*store_, *kernels_, options_.kernel == "auto");
  options_.train.compact = options_.test.compact = learner_->wants_compact_batches();
  options_.train.start = state_.position;
  options_.train.should_stop = options_.test.should_stop = observer_.should_stop;
  ASSIGN_OR_RETURN(queue_, io::InputQueue::Open(options_.train));
  if (resumed_step_ && queue_->fingerprint() != state_.input_fingerprint) {
    return io::Invalid(
        "resume: the training files are not those of the checkpoint (their number, order, sizes or "
        "content differ)");
  }
  state_.input_fingerprint = queue_->fingerprint();
  state_.options_digest = OptionsDigest(options_);
  if (!options_.test.files.empty()) {
    test_set_ = std::make_unique<TestSet>(options_.test, options_.test_cache_bytes);
  }
  schedule_.emplace(options_.eval_every, state_.tested_at);
  early_stop_.emplace(options_.early_stop, state_.early_stop);
  next_checkpoint_ = NextAfter(state_.examples, options_.checkpoint_every);
  return {};
}

Status SparseTrainer::Restore() {
  ASSIGN_OR_RETURN(const LatestCheckpoint restored,
                   LoadLatestCheckpoint(options_.checkpoints, *store_));
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
    return io::Invalid("resume: the order of the data would change. The checkpoint has " +
                       state_.options_digest + "; found " + OptionsDigest(options_));
  }
  resumed_step_ = state_.steps;
  return {};
}

bool SparseTrainer::Finished() const {
  return options_.max_examples > 0 && state_.examples >= options_.max_examples;
}

Result<TrainSummary> SparseTrainer::Run() {
  start_s_ = row_start_s_ = observer_.now_s();
  const double earlier_seconds = state_.seconds;
  const uint64_t earlier_examples = state_.examples;
  bool early = false;
  while (!Finished() && !early) {
    const Result<bool> more = options_.hogwild > 1 ? AdvanceHogwild() : Advance();
    state_.seconds = earlier_seconds + observer_.now_s() - start_s_;
    if (more.status().code() == io::Code::kCancelled) {
      RETURN_IF_ERROR(Stop());
      break;
    }
    RETURN_IF_ERROR(more.status());
    if (!*more) break;
    ASSIGN_OR_RETURN(early, TestIfDue(/*at_end=*/false));
    if (state_.examples >= next_checkpoint_) RETURN_IF_ERROR(Checkpoint());
    if (observer_.should_stop && observer_.should_stop()) {
      RETURN_IF_ERROR(Stop());
      break;
    }
    ShowProgress();
  }
  if (state_.examples == 0 && summary_.end != TrainSummary::End::kStopped) {
    return io::Invalid("the training data has no examples");
  }
  if (summary_.end != TrainSummary::End::kStopped) {
    RETURN_IF_ERROR(TestIfDue(/*at_end=*/true).status());
    if (early) summary_.end = TrainSummary::End::kEarlyStop;
  }
  summary_.steps = state_.steps;
  summary_.examples = state_.examples;
  summary_.examples_here = state_.examples - earlier_examples;
  summary_.seconds = observer_.now_s() - start_s_;
  summary_.mean_loss = state_.total_weight > 0 ? state_.total_loss / state_.total_weight : 0;
  summary_.input = queue_->stats();
  summary_.loss = queue_->loss();
  return summary_;
}

// One step. False when there is no more data.
Result<bool> SparseTrainer::Advance() {
  const CsrBatch* batch = nullptr;
  ASSIGN_OR_RETURN(const bool more, queue_->Next(batch));
  if (more) RETURN_IF_ERROR(Learn(*batch));
  return more;
}

// Some thousand steps, up to the next test, checkpoint or the end.
Result<bool> SparseTrainer::AdvanceHogwild() {
  uint64_t until = state_.examples + kHogwildExamples;
  until = std::min({until, schedule_->next(), next_checkpoint_});
  if (options_.max_examples > 0) until = std::min(until, options_.max_examples);
  ASSIGN_OR_RETURN(
      const HogwildStretch stretch,
      RunHogwild(*store_, *kernels_, *queue_, options_.hogwild, until - state_.examples));
  state_.steps += stretch.steps;
  if (stretch.examples > 0)
    RETURN_IF_ERROR(CountLoss(stretch.loss, stretch.weight, stretch.examples));
  return !stretch.ended || stretch.examples > 0;
}

Status SparseTrainer::Learn(const CsrBatch& batch) {
  TRACE_SCOPE("step", static_cast<int64_t>(batch.rows()));
  ASSIGN_OR_RETURN(const double loss, learner_->Learn(batch));
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
  row_examples_ += examples;
  return {};
}

// True when the run should end early.
Result<bool> SparseTrainer::TestIfDue(bool at_end) {
  const bool due = at_end ? schedule_->DueAtEnd(state_.examples) : schedule_->Due(state_.examples);
  if (!test_set_ || !due) return false;
  const double before_s = observer_.now_s();
  MetricsRow row;
  ASSIGN_OR_RETURN(row.test, test_set_->Test(*learner_));
  row.step = state_.steps;
  row.examples = state_.examples;
  row.epoch = static_cast<double>(state_.position.epoch);
  row.seconds = state_.seconds;
  row.loss = state_.row_weight > 0 ? state_.row_loss / state_.row_weight : 0;
  row.examples_per_s = static_cast<double>(row_examples_) / std::max(before_s - row_start_s_, 1e-9);
  schedule_->Tested(state_.examples);
  const bool stop = early_stop_->Update(state_.steps, row.test);
  ++state_.tests;
  state_.tested_at = schedule_->tested_at();
  state_.early_stop = early_stop_->state();
  state_.row_loss = state_.row_weight = 0;
  row_examples_ = 0;
  row_start_s_ = observer_.now_s();
  summary_.last_test = row;
  if (observer_.on_test) RETURN_IF_ERROR(observer_.on_test(row));
  return stop;
}

// Asked to end early: with a checkpoint, if there is a place for it and something to keep.
Status SparseTrainer::Stop() {
  summary_.end = TrainSummary::End::kStopped;
  return options_.checkpoints.empty() || state_.steps == 0 ? Status() : Checkpoint();
}

Status SparseTrainer::Checkpoint() {
  TRACE_SCOPE("checkpoint");
  if (observer_.before_checkpoint) RETURN_IF_ERROR(observer_.before_checkpoint());
  RETURN_IF_ERROR(SaveCheckpoint(options_.checkpoints, *store_, state_));
  next_checkpoint_ = NextAfter(state_.examples, options_.checkpoint_every);
  return {};
}

void SparseTrainer::ShowProgress() {
  if (!observer_.on_progress || (state_.steps % 16 != 0 && options_.hogwild <= 1)) return;
  const double now_s = observer_.now_s();
  if (now_s < next_progress_s_) return;
  next_progress_s_ = now_s + kProgressSeconds;
  observer_.on_progress(state_.examples, state_.total_loss / state_.total_weight);
}

}  // namespace millrace::trainer
