// SPDX-License-Identifier: Apache-2.0
// millrace-convnet: trains and evaluates softmax regression, LeNet and AlexNet.

#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "convnets/net/graph.h"
#include "io/record/output_file.h"
#include "profiler/clock.h"
#include "profiler/session.h"
#include "tools/common/help.h"
#include "tools/common/job_table.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/run_record.h"
#include "tools/convnet/convnet_flags.h"

namespace millrace::convnet {
namespace {

using tools::Answer;
using tools::BytesText;
using tools::CatchInterrupts;
using tools::Counted;
using tools::DurationText;
using tools::Fail;
using tools::IgnoreBrokenPipes;
using tools::Interrupted;
using tools::LostText;
using tools::ParsedLine;
using tools::ParseLine;
using tools::RunOutcome;
using tools::RunRecord;
using tools::WireText;
using tools::WithCommas;
using tools::WorkerTable;

using trainer::MetricsRow;
using trainer::TrainSummary;

constexpr char kProgram[] = "millrace-convnet";

uint64_t PeakMemoryBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Status WriteText(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, io::AtPath::kReplace));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

std::string RateText(const sparse::DenseOptions& update) {
  char rate[32];
  std::snprintf(rate, sizeof rate, "%g", update.Rate());
  std::string text = rate;
  if (update.decay_every > 0) {
    std::snprintf(rate, sizeof rate, ", times %g", update.decay_factor);
    text += rate + (" every " + WithCommas(update.decay_every) + " steps");
  }
  if (update.fall_steps > 0) text += ", to 0 in " + WithCommas(update.fall_steps) + " steps";
  return text;
}

// One run of the program: its run folder and its console output.
class Run {
 public:
  explicit Run(ConvnetOptions options)
      : options_(std::move(options)),
        record_({.program = kProgram,
                 .run = options_.run,
                 .profile = options_.profile,
                 .flags = ConvnetFlagValues(),
                 .seed = options_.train.seed,
                 .in_job = options_.job.has_value(),
                 .columns = {.test = convnets::NetMetrics(0, 0, 0)}}) {}

  Result<int> Go() {
    if (!options_.graph.empty()) {
      ASSIGN_OR_RETURN(const convnets::NetSpec spec, convnets::MakeNet(options_.train.net));
      RETURN_IF_ERROR(WriteText(options_.graph, convnets::GraphDot(spec)));
      return 0;
    }
    return record_.Conduct(
        Chief(), [this] { return Work(); }, [this] { PrintEnd(*summary_); });
  }

 private:
  Result<RunOutcome> Work() {
    const double begin_s = NowSeconds();
    RETURN_IF_ERROR(OpenImages());
    if (options_.linear_rate) PlanRate();
    RETURN_IF_ERROR(JoinJob());
    ASSIGN_OR_RETURN(
        trainer_, convnets::NetTrainer::Create(options_.train, *train_images_, test_images_.get(),
                                               Observer(), job_.get()));
    RETURN_IF_ERROR(BeginRecord());
    PrintHead(NowSeconds() - begin_s);
    RETURN_IF_ERROR(record_.StartProfile());
    Result<TrainSummary> summary = Train();
    Status status = summary.status();
    const bool stopped = status.ok() && summary->end == TrainSummary::End::kStopped;
    if (status.ok() && !stopped && !ModelPath().empty() && Chief()) {
      const auto at_path = options_.model_out.empty() ? io::AtPath::kReplace : io::AtPath::kFollow;
      status = trainer_->SaveModel(ModelPath(), options_.images, at_path);
    }
    if (status.ok() && job_) {
      wire_ = job_->wire();
      workers_ = job_->workers();
      status = job_->Leave();
    }
    const Status profiled = record_.FinishProfile();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(profiled);
    summary_ = *summary;
    RunOutcome outcome = {.stopped = stopped, .steps = summary_->steps};
    if (summary_->last_row) outcome.metrics = summary_->last_row->test;
    outcome.best = trainer::BestOf(summary_->state);
    outcome.warnings = warnings_ = Warnings(*summary_);
    return outcome;
  }

  // Worker 0 of a job, and a process by itself.
  bool Chief() const { return options_.train.worker == 0; }

  // The number of steps over which the rate falls; the same for all workers. A step of a
  // synchronous job has a batch of each worker. With backup workers it may have fewer, and the
  // number of steps is not known beforehand.
  void PlanRate() {
    convnets::NetTrainOptions worker = options_.train;
    uint64_t sum = 0, most = 0;
    for (worker.worker = 0; worker.worker < worker.workers; ++worker.worker) {
      const uint64_t batches = worker.Batches(train_images_->size());
      sum += batches;
      most = std::max(most, batches);
    }
    const bool together = options_.job && options_.job->config.mode == ps::Mode::kSync &&
                          options_.job->config.replicas_to_aggregate == 0;
    options_.train.update.fall_steps = together ? most : sum;
    if (options_.job) options_.job->config.dense = options_.train.update;
  }

  Status JoinJob() {
    if (!options_.job) return {};
    options_.job->wait.on_note = [this](const std::string& note) { record_.Note(note); };
    options_.job->wait.should_stop = Interrupted;
    ASSIGN_OR_RETURN(job_, convnets::ServerBackend::Join(*options_.job));
    profiler::SetClockOffset(job_->clock_offset_ns());
    // An earlier run is erased before the servers claim its folders.
    if (!Chief() || options_.job->rejoin) return {};
    return record_.Begin(job_->restored_step());
  }

  Status OpenImages() {
    convnets::ImageOptions test = options_.images;
    test.augment = false;
    if (options_.synthetic) {
      const size_t size = options_.synthetic_images;
      train_images_ =
          convnets::SyntheticImages(options_.images, size, options_.train.seed, /*test=*/false);
      test_images_ = convnets::SyntheticImages(test, std::max<size_t>(1, size / 10),
                                               options_.train.seed, true);
      return {};
    }
    ASSIGN_OR_RETURN(train_images_, convnets::OpenImages(options_.train_files, options_.images));
    if (options_.test_files.empty()) return {};
    ASSIGN_OR_RETURN(test_images_, convnets::OpenImages(options_.test_files, test));
    return {};
  }

  trainer::TrainObserver Observer() {
    trainer::TrainObserver observer;
    observer.on_best = [this](const MetricsRow&) {
      return record_.folder()
                 ? trainer_->SaveModel(BestPath(), options_.images, io::AtPath::kReplace)
                 : Status();
    };
    observer.on_evaluation = [this](const MetricsRow& row) { return OnEvaluation(row); };
    observer.before_checkpoint = [this] { return record_.Sync(); };
    observer.on_note = [this](const std::string& note) { record_.Note(note); };
    observer.on_progress = [this](uint64_t examples, double) { record_.ShowProgress(examples); };
    observer.should_stop = Interrupted;
    observer.now_s = NowSeconds;
    return observer;
  }

  Status BeginRecord() {
    if (!record_.has_begun()) RETURN_IF_ERROR(record_.Begin(trainer_->resumed_step()));
    if (!record_.folder()) return {};
    RETURN_IF_ERROR(
        WriteText(record_.folder()->path() + "/graph.dot", convnets::GraphDot(trainer_->spec())));
    if (trainer_->resumed_step()) return {};  // the first event file has the graph
    return record_.AddGraph(convnets::GraphDef(trainer_->spec()));
  }

  void PrintHead(double seconds) const {
    const convnets::NetTrainOptions& o = options_.train;
    const convnets::NetSpec& spec = trainer_->spec();
    std::printf("net       %s, %s parameters, input %s, %zu classes\n", spec.name.c_str(),
                WithCommas(spec.parameters()).c_str(), convnets::ShapeText(spec.input).c_str(),
                spec.classes());
    std::printf("learning  %s, rate %s, batches of %zu, seed %llu\n",
                sparse::DenseRuleName(o.update.rule), RateText(o.update).c_str(), o.batch_size,
                static_cast<unsigned long long>(o.seed));
    if (job_) PrintJob();
    std::printf("data      %s training and %s test images%s\n",
                WithCommas(train_images_->size()).c_str(),
                WithCommas(test_images_ ? test_images_->size() : 0).c_str(),
                options_.synthetic ? ", synthetic" : "");
    std::printf("machine   %s; ready in %s\n", trainer_->net().description().c_str(),
                DurationText(seconds).c_str());
    if (trainer_->resumed_step()) {
      std::printf("resumed   from the checkpoint of step %s\n",
                  WithCommas(*trainer_->resumed_step()).c_str());
    }
    if (test_images_ && Chief()) std::printf("\n%s\n", convnets::NetConsoleHeader().c_str());
    std::fflush(stdout);
  }

  void PrintJob() const {
    const ps::JobConfig& c = options_.job->config;
    const uint64_t bytes = job_->bytes_a_step();
    std::printf("job       worker %llu of %llu, %llu server%s, %s, %s a step out, %s back%s",
                static_cast<unsigned long long>(options_.job->worker),
                static_cast<unsigned long long>(c.num_workers),
                static_cast<unsigned long long>(c.num_shards), c.num_shards == 1 ? "" : "s",
                ps::ModeName(c.mode), BytesText(c.bf16 ? bytes / 2 : bytes).c_str(),
                BytesText(bytes).c_str(), c.zstd ? " before they are packed" : "");
    if (c.mode == ps::Mode::kSync) {
      const uint64_t replicas = c.replicas_to_aggregate ? c.replicas_to_aggregate : c.num_workers;
      std::printf("; effective batch %s", WithCommas(replicas * options_.train.batch_size).c_str());
    }
    std::printf("\n");
  }

  Result<TrainSummary> Train() {
    const uint64_t all = options_.train.epochs * train_images_->size();
    const uint64_t most = options_.train.max_examples;
    record_.StartProgress("images", most > 0 ? std::min(most, all) : all,
                          trainer_->resumed_step().has_value());
    Result<TrainSummary> summary = trainer_->Run();
    record_.EndProgress();
    return summary;
  }

  Status OnEvaluation(const MetricsRow& row) {
    return record_.Append(convnets::NetConsoleLine(row), row);
  }

  std::string ModelPath() const {
    if (!options_.model_out.empty()) return options_.model_out;
    return record_.folder() ? record_.folder()->model() + "/model.bin" : "";
  }

  std::string BestPath() const { return record_.folder()->model() + "/best.bin"; }

  std::vector<std::string> Warnings(const TrainSummary& s) const {
    std::vector<std::string> warnings;
    if (!Chief()) return warnings;
    if (job_) warnings.push_back(LostText(workers_));
    if (ModelPath().empty() && s.end != TrainSummary::End::kStopped) {
      warnings.push_back("no model was kept: --run_dir or --model_out says where to");
    }
    std::erase(warnings, "");
    return warnings;
  }

  void PrintEnd(const TrainSummary& s) const {
    const double rate = static_cast<double>(s.own_examples) / std::max(s.train_seconds, 1e-9);
    if (Chief()) {
      std::printf("\ntrained   %s in %s, progressive loss %.5f\n",
                  Counted(s.examples, "image").c_str(), Counted(s.steps, "step").c_str(),
                  s.mean_loss);
    } else {
      std::printf("\ntrained   %s of its own part\n",
                  Counted(s.state.own.examples, "image").c_str());
    }
    std::printf("time      %s, of it %s training: %.*f images/s; waited %s for input\n",
                DurationText(s.seconds).c_str(), DurationText(s.train_seconds).c_str(),
                rate < 1000 ? 1 : 0, rate, DurationText(trainer_->input_wait_seconds()).c_str());
    std::printf("memory    %s at most\n", BytesText(PeakMemoryBytes()).c_str());
    if (job_) std::printf("%s", WireText(wire_, s.own_examples).c_str());
    if (job_ && Chief()) {
      std::printf("%s\n", WorkerTable(workers_, s.seconds).c_str());
    }
    if (s.end == TrainSummary::End::kStopped) {
      std::printf("stopped   by a signal%s\n", !options_.train.checkpoints.empty()
                                                   ? "; continue with the same flags and --resume"
                                                   : "; nothing was kept (no --run_dir)");
    } else if (!ModelPath().empty()) {
      std::printf("model     %s\n", ModelPath().c_str());
    }
    const trainer::EarlyStopState& best = s.state.early_stop;
    if (Chief() && best.best_step > 0) {
      std::printf("best      %s (%s %.5f, step %s)\n", BestPath().c_str(), best.metric.c_str(),
                  best.best, WithCommas(best.best_step).c_str());
    }
    for (const std::string& warning : warnings_) std::printf("warning   %s\n", warning.c_str());
    if (record_.folder()) std::printf("run       %s\n", record_.folder()->path().c_str());
  }

  ConvnetOptions options_;
  RunRecord record_;
  std::unique_ptr<convnets::ImageSet> train_images_, test_images_;
  std::unique_ptr<convnets::ServerBackend> job_;
  std::vector<ps::WireStats> wire_;       // at the end of the job
  std::vector<ps::WorkerStats> workers_;  // the same
  std::unique_ptr<convnets::NetTrainer> trainer_;
  std::optional<TrainSummary> summary_;  // at the end
  std::vector<std::string> warnings_;    // the same
};

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(ConvnetSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto answered = Answer(ConvnetSpec(), line->action)) return *answered;
  const Result<ConvnetOptions> options = ConvnetOptionsFromFlags();
  if (!options.ok()) return Fail(kProgram, options.status());
  CatchInterrupts();
  IgnoreBrokenPipes();
  Run run(*options);
  const Result<int> code = run.Go();
  return code.ok() ? *code : Fail(kProgram, code.status());
}

}  // namespace
}  // namespace millrace::convnet

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::convnet::kProgram, millrace::convnet::Main, argc,
                                      argv);
}
