#include "convnets/train/net_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <new>

#include "io/state/checkpoint_folder.h"
#include "profiler/trace.h"
#include "trainer/run/chief_seconds.h"
#include "trainer/run/run_folder.h"

namespace millrace::convnets {
namespace {

using trainer::NamedRow;

constexpr size_t kKeptBefore = 1;

uint64_t EvalEvery(const NetTrainOptions& options, const ImageSet& train) {
  return options.eval_every > 0 ? options.eval_every : train.size();
}

// The worker's part of max_examples.
uint64_t OwnMost(const NetTrainOptions& o) {
  return o.max_examples / o.workers + (o.worker < o.max_examples % o.workers ? 1 : 0);
}

double Share(double part, uint64_t whole) {
  return whole > 0 ? part / static_cast<double>(whole) : 0;
}

}  // namespace

std::vector<trainer::NamedValue> NetMetrics(double accuracy, double logloss,
                                            double train_accuracy) {
  return {{"accuracy", accuracy}, {"logloss", logloss}, {"train_accuracy", train_accuracy}};
}

std::string NetConsoleHeader() {
  return "     step     examples  epoch     loss  train_acc  test_loss  test_acc  images/s";
}

std::string NetConsoleLine(const NamedRow& row) {
  char line[160], rate[32] = "-";
  if (std::isfinite(row.examples_per_s)) {
    std::snprintf(rate, sizeof rate, "%.0f", row.examples_per_s);
  }
  std::snprintf(line, sizeof line, "%9llu  %11llu  %5.2f  %7.5f     %6.4f    %7.5f    %6.4f  %8s",
                static_cast<unsigned long long>(row.step),
                static_cast<unsigned long long>(row.examples), row.epoch, row.loss,
                row.test[2].value, row.test[1].value, row.test[0].value, rate);
  return line;
}

Status NetTrainOptions::Validate() const {
  RETURN_IF_ERROR(update.Validate());
  if (batch_size == 0 || batch_size > 1 << 20) {
    return Invalid("batch_size: expected 1 to 1048576, found " + std::to_string(batch_size));
  }
  if (epochs == 0) return Invalid("epochs: expected at least 1, found 0");
  if (threads == 0 || threads > 1024) {
    return Invalid("threads: expected 1 to 1024, found " + std::to_string(threads));
  }
  if (resume && checkpoints.empty()) {
    return Invalid("resume needs a run folder: expected --run_dir");
  }
  if (worker >= workers) {
    return Invalid("worker: expected below " + std::to_string(workers) + ", found " +
                   std::to_string(worker));
  }
  return {};
}

uint64_t NetTrainOptions::Batches(size_t images) const {
  const BatchOrder order({.images = images, .batch_size = batch_size, .workers = workers});
  const uint64_t all = epochs * order.batches_per_epoch();
  if (max_examples == 0) return all;
  const uint64_t most = OwnMost(*this), last_epoch = most % order.share();
  return std::min(all, most / order.share() * order.batches_per_epoch() +
                           (last_epoch + batch_size - 1) / batch_size);
}

Result<std::unique_ptr<NetTrainer>> NetTrainer::Create(const NetTrainOptions& options,
                                                       const ImageSet& train, const ImageSet* test,
                                                       NetObserver observer, NetJob* job) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(NetSpec spec, MakeNet(options.net));
  if (train.size() == 0) return Invalid("the training data has no images");
  try {
    auto trainer = std::make_unique<NetTrainer>(Private{}, options, train, test,
                                                std::move(observer), std::move(spec), job);
    RETURN_IF_ERROR(trainer->Prepare());
    return trainer;
  } catch (const std::bad_alloc&) {
    return Invalid("not enough memory for the net " + options.net.name);
  }
}

NetTrainer::NetTrainer(Private, const NetTrainOptions& options, const ImageSet& train,
                       const ImageSet* test, NetObserver observer, NetSpec spec, NetJob* job)
    : options_(options),
      train_(train),
      test_(test),
      observer_(std::move(observer)),
      spec_(std::move(spec)),
      params_(spec_),
      job_(job),
      schedule_(EvalEvery(options, train)) {}

Status NetTrainer::Prepare() {
  params_.Initialize(options_.init, options_.seed);
  ASSIGN_OR_RETURN(net_, MakeEngine(options_.engine, spec_, params_,
                                    {.max_batch = options_.batch_size,
                                     .threads = options_.threads,
                                     .seed = options_.seed,
                                     .early_gradients = job_ != nullptr}));
  if (job_) {
    store_ = &job_->store();
  } else {
    local_ = std::make_unique<sparse::LocalDenseStore>(
        options_.update, [this](size_t size, const std::function<void(size_t, size_t)>& work) {
          net_->ParallelFor(size, work);
        });
    store_ = local_.get();
  }
  if (!options_.model_in.empty()) {
    ASSIGN_OR_RETURN(const std::string file, trainer::ModelFileOf(options_.model_in));
    RETURN_IF_ERROR(LoadArrays(file, NetFields("net"), Arrays(false)).status());
  }
  RETURN_IF_ERROR(store_->Init(params_.all()));
  if (job_) {
    ASSIGN_OR_RETURN(const std::optional<ProgressState> place, job_->place());
    if (place) {
      state_ = *place;
      resumed_step_ = state_.steps;
    }
  } else if (options_.resume) {
    RETURN_IF_ERROR(Restore());
  }
  schedule_ = trainer::EvalSchedule(EvalEvery(options_, train_), state_.tested_at);
  next_checkpoint_ =
      options_.checkpoint_every > 0
          ? (state_.examples / options_.checkpoint_every + 1) * options_.checkpoint_every
          : std::numeric_limits<uint64_t>::max();
  batches_ = std::make_unique<BatchSource>(
      train_, BatchSourceOptions{.order = {.batch_size = options_.batch_size,
                                           .seed = options_.seed,
                                           .worker = options_.worker,
                                           .workers = options_.workers},
                                 .begin = state_.batches,
                                 .end = options_.Batches(train_.size()),
                                 .threads = train_.slow() ? options_.input_threads : 0});
  return {};
}

io::StateFields NetTrainer::NetFields(const char* kind) const {
  io::StateFields fields;
  fields.Add("kind", kind);
  fields.Add("net", spec_.name);
  fields.AddUint("classes", spec_.classes());
  fields.AddUint("parameters", spec_.parameters());
  return fields;
}

io::StateFields NetTrainer::RunFields() const {
  io::StateFields fields = NetFields("net_checkpoint");
  options_.update.AddTo(fields);
  fields.AddUint("batch_size", options_.batch_size);
  fields.AddUint("seed", options_.seed);
  fields.AddUint("images", train_.size());
  return fields;
}

FloatArrays NetTrainer::Arrays(bool with_state) const {
  FloatArrays arrays;
  for (size_t p = 0; p < params_.size(); ++p) {
    arrays.push_back(params_.weights(p));
    if (with_state) arrays.push_back(local_->state(p));
  }
  return arrays;
}

Status NetTrainer::SaveModel(const std::string& path) const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  io::StateFields fields = NetFields("net");
  fields.AddUint("examples", state_.examples);
  return SaveArrays(path, fields, Arrays(false));
}

// Takes the newest checkpoint that is whole.
Status NetTrainer::Restore() {
  io::RemoveTemporaryFiles(options_.checkpoints);
  ASSIGN_OR_RETURN(const std::vector<io::CheckpointFile> files,
                   io::ListCheckpoints(options_.checkpoints));
  for (const io::CheckpointFile& file : files) {
    const Result<io::StateFields> fields = LoadArrays(file.path, RunFields(), Arrays(true));
    if (fields.ok()) {
      ASSIGN_OR_RETURN(state_, ProgressState::From(*fields));
      local_->set_steps(state_.steps);
      resumed_step_ = state_.steps;
      return {};
    }
    if (fields.status().code() != Code::kCorrupt) return fields.status();
    if (observer_.on_note) observer_.on_note(fields.status().message());
  }
  if (!files.empty()) {
    return Corrupt(options_.checkpoints + ": all " + std::to_string(files.size()) +
                   " checkpoints are damaged");
  }
  if (observer_.on_note) {
    observer_.on_note(options_.checkpoints + " has no checkpoint: starting from the beginning");
  }
  return {};
}

void NetTrainer::CountStep(const Batch& batch, const Outcome& outcome) {
  ++state_.batches;
  state_.own_examples += batch.images();
  state_.row_correct += outcome.correct;
  state_.row_own_examples += batch.images();
  if (job_) return;
  ++state_.steps;
  state_.examples += batch.images();
  state_.row_examples += batch.images();
  state_.row_loss += outcome.loss;
  state_.total_loss += outcome.loss;
  row_examples_here_ += batch.images();
}

// What the job has learnt since the last look counts as learnt.
void NetTrainer::SyncWithJob() {
  if (!job_) return;
  const JobSums sums = job_->sums();
  state_.row_examples += sums.examples - state_.examples;
  row_examples_here_ += sums.examples - state_.examples;
  state_.row_loss += sums.loss - state_.total_loss;
  state_.steps = sums.steps;
  state_.examples = sums.examples;
  state_.total_loss = sums.loss;
}

// One step. False when there is no more data.
Result<bool> NetTrainer::Step() {
  profiler::MarkStep(state_.batches);
  profiler::TraceScope span("step", profiler::Cat::kStep);
  Batch batch;
  ASSIGN_OR_RETURN(const bool more, batches_->Next(batch));
  if (!more) return false;
  const auto images = static_cast<uint32_t>(batch.images());
  span.args().rows = images;
  if (job_) job_->Describe(images, 0, state_);
  const Result<Outcome> outcome = net_->ComputeGradients(
      batch, state_.batches + 1, [this](size_t param, std::span<const float> gradient) {
        return store_->Push(param, gradient);
      });
  RETURN_IF_ERROR(outcome.status());
  if (!std::isfinite(outcome->loss)) {
    return Invalid("training diverged: the loss of step " + std::to_string(state_.batches + 1) +
                   " is not finite; expected a learning rate below " +
                   std::to_string(options_.update.Rate()));
  }
  CountStep(batch, *outcome);
  if (job_) job_->Describe(images, outcome->loss, state_);
  for (size_t p = 0; p < params_.size(); ++p) RETURN_IF_ERROR(store_->Pull(p));
  SyncWithJob();
  return true;
}

Status NetTrainer::Test() {
  TRACE_SCOPE("test", profiler::Cat::kEvaluation);
  Outcome sum;
  BatchSource source(*test_,
                     {.order = {.batch_size = options_.batch_size, .shuffle = false},
                      .begin = 0,
                      .end = (test_->size() + options_.batch_size - 1) / options_.batch_size,
                      .threads = test_->slow() ? options_.input_threads : 0});
  Batch batch;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, source.Next(batch));
    if (!more) break;
    const Outcome outcome = net_->Evaluate(batch);
    sum.loss += outcome.loss;
    sum.correct += outcome.correct;
  }
  NamedRow row;
  row.step = state_.steps;
  row.examples = state_.examples;
  row.epoch = Share(static_cast<double>(state_.examples), train_.size());
  row.seconds = state_.seconds;
  row.loss = Share(state_.row_loss, state_.row_examples);
  row.test = NetMetrics(Share(static_cast<double>(sum.correct), test_->size()),
                        Share(sum.loss, test_->size()),
                        Share(static_cast<double>(state_.row_correct), state_.row_own_examples));
  row.examples_per_s = trainer::RowRate(row_examples_here_, row_seconds_);
  schedule_.Tested(state_.examples);
  state_.tested_at = schedule_.tested_at();
  state_.row_loss = 0;
  state_.row_correct = state_.row_examples = state_.row_own_examples = 0;
  row_examples_here_ = 0;
  row_seconds_ = 0;
  summary_.last_test = row;
  return observer_.on_test ? observer_.on_test(row) : Status();
}

Status NetTrainer::Checkpoint() {
  TRACE_SCOPE("checkpoint", profiler::Cat::kCheckpoint);
  if (observer_.before_checkpoint) RETURN_IF_ERROR(observer_.before_checkpoint());
  if (options_.checkpoint_every > 0) {
    next_checkpoint_ =
        (state_.examples / options_.checkpoint_every + 1) * options_.checkpoint_every;
  }
  if (job_) return job_->Checkpoint(state_);
  std::error_code error;
  std::filesystem::create_directories(options_.checkpoints, error);
  if (error) return IoError("cannot create the folder " + options_.checkpoints, error.value());
  io::StateFields fields = RunFields();
  state_.AddTo(fields);
  RETURN_IF_ERROR(
      SaveArrays(io::CheckpointPath(options_.checkpoints, state_.steps), fields, Arrays(true)));
  io::RemoveOtherCheckpoints(options_.checkpoints, state_.steps, kKeptBefore);
  return {};
}

// Asked to end early, which the chief does for all workers, with a checkpoint if there is a place
// for it. The others wait for it to do so, some seconds long.
Result<bool> NetTrainer::Interrupted() {
  if (!AskedToStop()) return false;
  const double now = observer_.now_s();
  if (!chief()) {
    if (stop_by_s_ == 0) stop_by_s_ = now + trainer::kChiefSeconds;
    if (now < stop_by_s_) return false;
  }
  RETURN_IF_ERROR(Interrupt(state_));
  return true;
}

// `before` the last step, which does not count if the job never made it. A worker by itself leaves
// like one that was killed: its part is not learnt, so it must not count as finished.
Status NetTrainer::Interrupt(const ProgressState& before) {
  if (!chief()) return Cancelled("interrupted: this worker leaves its job");
  summary_.stopped = true;
  if (job_) {
    RETURN_IF_ERROR(job_->Stop());
    if (job_->sums().steps == before.steps) state_ = before;
    SyncWithJob();
  }
  return options_.checkpoints.empty() ? Status() : Checkpoint();
}

bool NetTrainer::Finished() const {
  if (job_ && job_->stopped()) return true;
  if (options_.max_examples == 0) return false;
  return state_.own_examples >= OwnMost(options_);
}

Result<NetSummary> NetTrainer::Run() {
  const double start = observer_.now_s();
  const double earlier_seconds = state_.seconds;
  const uint64_t earlier_examples = state_.own_examples;
  const bool tests = test_ && chief();
  double step_begin = start;
  while (!Finished()) {
    const ProgressState before = state_;
    const Result<bool> more = Step();
    if (more.status().code() == Code::kCancelled && AskedToStop()) {
      RETURN_IF_ERROR(Interrupt(before));
      break;
    }
    RETURN_IF_ERROR(more.status());
    if (!*more) break;
    const double now = observer_.now_s();
    row_seconds_ += now - step_begin;
    summary_.train_seconds += now - step_begin;
    state_.seconds = earlier_seconds + now - start;
    if (tests && schedule_.Due(state_.examples)) RETURN_IF_ERROR(Test());
    if (chief() && !options_.checkpoints.empty() && state_.examples >= next_checkpoint_) {
      RETURN_IF_ERROR(Checkpoint());
    }
    if (observer_.on_progress) observer_.on_progress(state_.examples);
    ASSIGN_OR_RETURN(const bool interrupted, Interrupted());
    if (interrupted) break;
    step_begin = observer_.now_s();
  }
  if (job_) {
    const double alone_s = observer_.now_s();
    summary_.stopped |= !chief() && job_->stopped();
    const Status finished = job_->Finish();
    const bool waited = finished.code() == Code::kCancelled && AskedToStop();
    RETURN_IF_ERROR(waited && !summary_.stopped ? Interrupt(state_) : finished);
    SyncWithJob();
    row_seconds_ += observer_.now_s() - alone_s;  // in which the other workers went on
  }
  if (tests && !summary_.stopped && schedule_.DueAtEnd(state_.examples)) RETURN_IF_ERROR(Test());
  summary_.steps = state_.steps;
  summary_.examples = state_.examples;
  summary_.examples_here = state_.own_examples - earlier_examples;
  summary_.seconds = observer_.now_s() - start;
  summary_.input_wait_seconds = batches_->wait_seconds();
  summary_.mean_loss = Share(state_.total_loss, state_.examples);
  return summary_;
}

}  // namespace millrace::convnets
