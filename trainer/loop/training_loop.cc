// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "profiler/trace.h"

namespace millrace::trainer {
namespace {

constexpr double kProgressSeconds = 0.1;

// For how long a worker that was asked to stop waits for the chief to stop the job: longer than the
// chief waits for a step that is under way. After that the worker leaves, and the job counts it as
// lost.
constexpr double kChiefSeconds = 8;

// The next multiple of `every`.
uint64_t NextAfter(uint64_t examples, uint64_t every) {
  return every == 0 ? kNoLimit : (examples / every + 1) * every;
}

bool InBackground(const Evaluation& evaluation) {
  return evaluation.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

// The error of a worker that leaves its job. It must not count as finished.
Status Left() { return Cancelled("interrupted: this worker leaves its job"); }

bool IsCancelled(const Status& status) { return status.code() == Code::kCancelled; }

double MeanLoss(const TrainingState& state) {
  return state.total_weight > 0 ? state.total_loss / state.total_weight : 0;
}

}  // namespace

uint64_t OwnExamples(uint64_t max_examples, uint64_t worker, uint64_t num_workers) {
  if (max_examples == 0) return kNoLimit;
  return max_examples / num_workers + (worker < max_examples % num_workers ? 1 : 0);
}

TrainingLoop::TrainingLoop(LoopOptions options, TrainObserver observer, TrainingTask& task,
                           Backend& backend, TrainingState start)
    : options_(std::move(options)),
      observer_(std::move(observer)),
      task_(task),
      backend_(backend),
      evaluates_(backend.chief() && task.has_test_data()),
      state_(std::move(start)),
      schedule_(options_.eval_every, state_.evaluated_at),
      early_stop_(options_.early_stop, state_.early_stop),
      checkpoint_every_(backend.chief() && options_.writes_checkpoints ? options_.checkpoint_every
                                                                       : 0),
      next_checkpoint_(NextAfter(state_.examples, checkpoint_every_)),
      stops_early_(early_stop_.due()),  // after the last evaluation before the checkpoint
      earlier_seconds_(state_.seconds),
      earlier_examples_(state_.examples),
      earlier_own_examples_(state_.own.examples),
      row_begin_examples_(state_.examples) {}

Result<TrainSummary> TrainingLoop::Run() {
  start_s_ = counted_s_ = observer_.now_s();
  while (!stops_early_ && !backend_.stopped()) {
    const Result<bool> more = NextStep();
    CountTime();
    Status status = more.status();
    if (status.ok() && !*more) break;
    if (status.ok()) status = EvaluateAndCheckpoint();
    if ((status.ok() || IsCancelled(status)) && StopRequested()) {
      ASSIGN_OR_RETURN(const bool ends, HandleStop(status));
      if (ends) break;
      continue;
    }
    RETURN_IF_ERROR(status);
    ShowProgress();
  }
  if (summary_.end != TrainSummary::End::kStopped) RETURN_IF_ERROR(End());
  return Summary();
}

// A step of this process or, once its data is used up, of the other workers. False when there is
// none.
Result<bool> TrainingLoop::NextStep() {
  own_data_done_ = own_data_done_ || state_.own.examples >= options_.max_own_examples;
  const uint64_t next_evaluation = evaluates_ ? schedule_.next() : kNoLimit;
  const uint64_t next_due = std::min(next_evaluation, next_checkpoint_);
  if (!own_data_done_) {
    const uint64_t left = options_.max_own_examples - state_.own.examples;
    const uint64_t until =
        left < kNoLimit - state_.examples ? std::min(next_due, state_.examples + left) : next_due;
    ASSIGN_OR_RETURN(const std::optional<StepResult> step, task_.Step(state_, until));
    if (step) {
      state_.own_weight += step->weight;
      state_.own_positive += step->positive;
      backend_.Count(*step, state_);
      return true;
    }
    own_data_done_ = true;
  }
  ASSIGN_OR_RETURN(const bool more, backend_.EmptyStep(state_.own, next_due));
  if (more) backend_.Count({}, state_);
  return more;
}

// What is due after a step.
Status TrainingLoop::EvaluateAndCheckpoint() {
  if (evaluation_.valid() && !InBackground(evaluation_)) RETURN_IF_ERROR(TakeEvaluation());
  const uint64_t examples = state_.examples + backend_.uncounted_examples();
  const bool may_evaluate = evaluates_ && schedule_.Due(examples);
  if (!may_evaluate && examples < next_checkpoint_) return {};
  RETURN_IF_ERROR(backend_.Flush());
  backend_.Count({}, state_);
  CountTime();
  if (evaluates_ && schedule_.Due(state_.examples)) {
    const Status evaluated = Evaluate();
    if (!evaluated.ok()) return KeepTrained(evaluated);
  }
  if (state_.examples >= next_checkpoint_) RETURN_IF_ERROR(Checkpoint());
  SkipTime();
  return {};
}

// After a stop request; `step` is the result of the last step. True when the run ends here: the
// chief stops the whole job. Another worker goes on until the chief has done so.
Result<bool> TrainingLoop::HandleStop(const Status& step) {
  if (backend_.chief()) {
    RETURN_IF_ERROR(StopTraining());
    return true;
  }
  if (stop_deadline_s_ == 0) stop_deadline_s_ = counted_s_ + kChiefSeconds;
  if (backend_.stopped()) return false;
  bool stays = counted_s_ < stop_deadline_s_;
  if (stays && !step.ok()) {
    ASSIGN_OR_RETURN(stays, backend_.WaitForStop());
  }
  if (!stays) return Left();
  return false;
}

// With a checkpoint, if there is a folder for it and something to keep.
Status TrainingLoop::StopTraining() {
  summary_.end = TrainSummary::End::kStopped;
  RETURN_IF_ERROR(backend_.Stop());
  RETURN_IF_ERROR(backend_.Flush());
  backend_.Count({}, state_);
  RETURN_IF_ERROR(TakeEvaluation());
  return options_.writes_checkpoints && state_.steps > 0 ? Checkpoint() : Status();
}

// The data is used up, the run stops early, or the chief has stopped the job.
Status TrainingLoop::End() {
  const bool early = stops_early_;
  if (early) RETURN_IF_ERROR(backend_.Stop());
  Status status = backend_.Finish();
  backend_.Count({}, state_);
  CountTime();
  if (status.ok()) status = EvaluateAtEnd();
  if (IsCancelled(status) && StopRequested()) return backend_.chief() ? StopTraining() : Left();
  RETURN_IF_ERROR(status);
  if (early) summary_.end = TrainSummary::End::kEarlyStop;
  const bool asked = !backend_.chief() && (stop_deadline_s_ > 0 || StopRequested());
  if (asked && backend_.stopped()) summary_.end = TrainSummary::End::kStopped;
  return {};
}

Status TrainingLoop::EvaluateAtEnd() {
  RETURN_IF_ERROR(TakeEvaluation());
  if (!evaluates_ || !schedule_.DueAtEnd(state_.examples)) return {};
  Status status = Evaluate();
  if (status.ok()) status = TakeEvaluation();
  return status.ok() ? status : KeepTrained(status);
}

// A background evaluation runs during the next steps, unless they depend on its result.
Status TrainingLoop::Evaluate() {
  RETURN_IF_ERROR(TakeEvaluation());
  pending_row_ = NextRow();
  evaluation_ = task_.Evaluate(state_);
  if (options_.early_stop.enabled() || !InBackground(evaluation_)) {
    RETURN_IF_ERROR(TakeEvaluation());
  }
  StartRow();
  return {};
}

Status TrainingLoop::TakeEvaluation() {
  if (!evaluation_.valid()) return {};
  Result<std::vector<NamedValue>> metrics = evaluation_.get();
  RETURN_IF_ERROR(metrics.status());
  pending_row_.test = std::move(*metrics);
  const bool is_best = early_stop_.Update(pending_row_);
  if (is_best && observer_.on_best) RETURN_IF_ERROR(observer_.on_best(pending_row_));
  ++state_.evaluations;
  stops_early_ = early_stop_.due();
  state_.early_stop = early_stop_.state();
  CountLogloss(pending_row_);
  summary_.last_row = pending_row_;
  return observer_.on_evaluation ? observer_.on_evaluation(pending_row_) : Status();
}

void TrainingLoop::CountLogloss(const MetricsRow& row) {
  const double logloss = row.Metric("logloss");
  if (std::isnan(logloss) || state_.lowest_logloss <= logloss) return;
  state_.lowest_logloss = logloss;
  state_.lowest_logloss_step = row.step;
  state_.lowest_logloss_loss = row.loss;
}

MetricsRow TrainingLoop::NextRow() const {
  return {.step = state_.steps,
          .examples = state_.examples,
          .epoch = task_.Epoch(state_),
          .seconds = state_.seconds,
          .loss = state_.row_weight > 0 ? state_.row_loss / state_.row_weight : 0,
          .examples_per_s = RowRate(state_.examples - row_begin_examples_, row_seconds_)};
}

void TrainingLoop::StartRow() {
  schedule_.Evaluated(state_.examples);
  state_.evaluated_at = schedule_.evaluated_at();
  state_.row_loss = state_.row_weight = 0;
  state_.row_own_examples = state_.row_own_correct = 0;
  row_begin_examples_ = state_.examples;
  row_seconds_ = 0;
}

// An evaluation has failed: a checkpoint keeps what was trained so far, if there is a folder. What
// is on servers may be the cause of the error.
Status TrainingLoop::KeepTrained(const Status& error) {
  if (IsCancelled(error) || backend_.remote()) return error;
  if (!options_.writes_checkpoints || !Checkpoint().ok()) return error;
  return Status(error.code(), error.message() + " (the checkpoint of step " +
                                  std::to_string(state_.steps) +
                                  " keeps the training so far: the run can be resumed from it)");
}

Status TrainingLoop::Checkpoint() {
  TRACE_SCOPE("checkpoint", profiler::Cat::kCheckpoint);
  RETURN_IF_ERROR(TakeEvaluation());
  if (observer_.before_checkpoint) RETURN_IF_ERROR(observer_.before_checkpoint());
  RETURN_IF_ERROR(backend_.Checkpoint(state_));
  saved_step_ = state_.steps;
  next_checkpoint_ = NextAfter(state_.examples, checkpoint_every_);
  return {};
}

// The time since the last call, or since SkipTime, was spent on training.
void TrainingLoop::CountTime() {
  const double now_s = observer_.now_s();
  row_seconds_ += now_s - counted_s_;
  summary_.train_seconds += now_s - counted_s_;
  counted_s_ = now_s;
  state_.seconds = earlier_seconds_ + now_s - start_s_;
}

void TrainingLoop::ShowProgress() {
  if (!observer_.on_progress || counted_s_ < next_progress_s_) return;
  next_progress_s_ = counted_s_ + kProgressSeconds;
  observer_.on_progress(state_.examples, MeanLoss(state_));
}

Status TrainingLoop::SaveState() {
  const bool saved = saved_step_ == state_.steps;
  return options_.writes_checkpoints && backend_.chief() && !saved ? Checkpoint() : Status();
}

TrainSummary TrainingLoop::Summary() const {
  TrainSummary summary = summary_;
  summary.steps = state_.steps;
  summary.examples = state_.examples;
  summary.new_examples = state_.examples - earlier_examples_;
  summary.own_examples = state_.own.examples - earlier_own_examples_;
  summary.seconds = observer_.now_s() - start_s_;
  summary.mean_loss = MeanLoss(state_);
  summary.state = state_;
  return summary;
}

Status Diverged(uint64_t step, uint64_t example, double loss, double rate) {
  char text[320];
  std::snprintf(text, sizeof text,
                "the loss of step %llu (example %llu) is %g: the model diverged. Expected a finite "
                "loss; try a lower learning_rate, such as %g (it was %g)",
                static_cast<unsigned long long>(step), static_cast<unsigned long long>(example),
                loss, rate / 10, rate);
  return Status(Code::kInvalid, text);
}

}  // namespace millrace::trainer
