// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/net_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <utility>

#include "convnets/train/net_backend.h"
#include "convnets/train/saved_net.h"
#include "profiler/trace.h"
#include "trainer/run/run_folder.h"

namespace millrace::convnets {
namespace {

using trainer::MetricsRow;
using trainer::StepResult;
using trainer::TrainingState;

uint64_t EvalEvery(const NetTrainOptions& options, const ImageSet& train) {
  return options.eval_every > 0 ? options.eval_every : train.size();
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

std::string NetConsoleLine(const MetricsRow& row) {
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
    return Invalid("resume needs a folder with checkpoints: expected run_dir, found none");
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
  const uint64_t most = trainer::OwnExamples(max_examples, worker, workers);
  const uint64_t last_epoch = most % order.share();
  return std::min(all, most / order.share() * order.batches_per_epoch() +
                           (last_epoch + batch_size - 1) / batch_size);
}

Result<std::unique_ptr<NetTrainer>> NetTrainer::Create(const NetTrainOptions& options,
                                                       const ImageSet& train, const ImageSet* test,
                                                       trainer::TrainObserver observer,
                                                       NetBackend* backend) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(NetSpec spec, MakeNet(options.net));
  if (train.size() == 0) return Invalid("the training data has no images");
  try {
    auto trainer = std::make_unique<NetTrainer>(Private{}, options, train, test, std::move(spec));
    RETURN_IF_ERROR(trainer->Prepare(std::move(observer), backend));
    return trainer;
  } catch (const std::bad_alloc&) {
    return Invalid("not enough memory for the net " + options.net.name);
  }
}

NetTrainer::NetTrainer(Private, const NetTrainOptions& options, const ImageSet& train,
                       const ImageSet* test, NetSpec spec)
    : options_(options), train_(train), test_(test), spec_(std::move(spec)), params_(spec_) {}

Status NetTrainer::Prepare(trainer::TrainObserver observer, NetBackend* backend) {
  if (!backend) {
    own_backend_ =
        std::make_unique<LocalNetBackend>(LocalNetOptions{.update = options_.update,
                                                          .checkpoints = options_.checkpoints,
                                                          .resume = options_.resume,
                                                          .on_note = observer.on_note});
  }
  backend_ = backend ? backend : own_backend_.get();
  params_.Initialize(options_.init, options_.seed);
  ASSIGN_OR_RETURN(net_, MakeEngine(options_.engine, spec_, params_,
                                    {.max_batch = options_.batch_size,
                                     .threads = options_.threads,
                                     .seed = options_.seed,
                                     .early_gradients = backend_->remote()}));
  if (!options_.model_in.empty()) {
    ASSIGN_OR_RETURN(const std::string file, trainer::ModelFileOf(options_.model_in));
    RETURN_IF_ERROR(LoadArrays(file, NetFields("net", spec_), WeightsOf(params_)).status());
  }
  const auto parallel_for = [this](size_t size, const std::function<void(size_t, size_t)>& work) {
    net_->ParallelFor(size, work);
  };
  ASSIGN_OR_RETURN(
      trainer::TrainingStart start,
      backend_->Start({.params = params_.all(), .run = RunFields(), .parallel_for = parallel_for}));
  resumed_step_ = start.resumed_step;
  batches_ = std::make_unique<BatchSource>(
      train_, BatchSourceOptions{.order = {.batch_size = options_.batch_size,
                                           .seed = options_.seed,
                                           .worker = options_.worker,
                                           .workers = options_.workers},
                                 .begin = start.state.own.batches,
                                 .end = options_.Batches(train_.size()),
                                 .threads = train_.slow() ? options_.input_threads : 0});
  const trainer::LoopOptions loop = {.max_own_examples = trainer::OwnExamples(
                                         options_.max_examples, options_.worker, options_.workers),
                                     .eval_every = EvalEvery(options_, train_),
                                     .early_stop = options_.early_stop,
                                     .writes_checkpoints = !options_.checkpoints.empty(),
                                     .checkpoint_every = options_.checkpoint_every};
  TrainingTask& task = *this;
  loop_ = std::make_unique<trainer::TrainingLoop>(loop, std::move(observer), task, *backend_,
                                                  std::move(start.state));
  return {};
}

io::StateFields NetTrainer::RunFields() const {
  io::StateFields fields = NetFields("net_checkpoint", spec_);
  options_.update.AddTo(fields);
  fields.AddUint("batch_size", options_.batch_size);
  fields.AddUint("seed", options_.seed);
  fields.AddUint("images", train_.size());
  return fields;
}

Status NetTrainer::SaveModel(const std::string& path, const ImageOptions& images,
                             io::AtPath at_path) const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  io::StateFields fields = NetFields("net", spec_);
  fields.AddUint("examples", loop_->state().examples);
  AddImageOptions(images, fields);
  return SaveArrays(path, fields, WeightsOf(params_), at_path);
}

Result<std::optional<StepResult>> NetTrainer::Step(TrainingState& state, uint64_t /*until*/) {
  profiler::MarkStep(state.own.batches);
  profiler::TraceScope span("step", profiler::Cat::kStep);
  Batch batch;
  ASSIGN_OR_RETURN(const bool more, batches_->Next(batch));
  if (!more) return std::optional<StepResult>();
  const auto images = static_cast<uint32_t>(batch.images());
  span.args().rows = images;
  sparse::DenseStore& store = backend_->store();
  backend_->Describe(images, 0, state.own);
  const Result<Outcome> outcome = net_->ComputeGradients(
      batch, state.own.batches + 1,
      [&](size_t param, std::span<const float> gradient) { return store.Push(param, gradient); });
  RETURN_IF_ERROR(outcome.status());
  ++state.own.batches;
  state.own.examples += images;
  if (!std::isfinite(outcome->loss)) {
    return trainer::Diverged(state.own.batches, state.own.examples, outcome->loss,
                             options_.update.Rate());
  }
  backend_->Describe(images, outcome->loss, state.own);
  for (size_t p = 0; p < params_.size(); ++p) RETURN_IF_ERROR(store.Pull(p));
  state.row_own_examples += images;
  state.row_own_correct += outcome->correct;
  return std::optional(StepResult{.steps = 1,
                                  .examples = images,
                                  .loss = outcome->loss,
                                  .weight = static_cast<double>(images)});
}

trainer::Evaluation NetTrainer::Evaluate(const TrainingState& state) {
  return std::async(std::launch::deferred, [this, &state] { return Score(state); });
}

Result<std::vector<trainer::NamedValue>> NetTrainer::Score(const TrainingState& state) {
  TRACE_SCOPE("evaluate", profiler::Cat::kEvaluation);
  ASSIGN_OR_RETURN(const Outcome sum, EvaluateImages(*net_, *test_,
                                                     {.batch_size = options_.batch_size,
                                                      .input_threads = options_.input_threads}));
  return NetMetrics(Share(static_cast<double>(sum.correct), test_->size()),
                    Share(sum.loss, test_->size()),
                    Share(static_cast<double>(state.row_own_correct), state.row_own_examples));
}

double NetTrainer::Epoch(const TrainingState& state) const {
  return Share(static_cast<double>(state.examples), train_.size());
}

}  // namespace millrace::convnets
