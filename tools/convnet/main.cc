// millrace-convnet: trains and tests softmax regression, LeNet and AlexNet.

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "convnets/net/graph.h"
#include "io/record/output_file.h"
#include "profiler/session.h"
#include "tools/common/interrupt.h"
#include "tools/common/job_table.h"
#include "tools/common/progress.h"
#include "tools/convnet/convnet_flags.h"
#include "trainer/run/host_info.h"
#include "trainer/run/metrics_log.h"

namespace millrace::tools {
namespace {

using convnets::NetSummary;
using io::Result;
using io::Status;
using trainer::NamedRow;

constexpr char kProgram[] = "millrace-convnet";
constexpr int kExitInterrupted = 130;
constexpr double kChiefSeconds = 10;

double SteadyNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double WallNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

uint64_t PeakMemoryBytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void PrintNote(const std::string& note) {
  std::fprintf(stderr, "%s: %s\n", kProgram, note.c_str());
}

// The profiler knows no Status: it says what went wrong, or nothing.
Status FromText(const std::string& error) {
  return error.empty() ? Status() : Status(io::Code::kIo, error);
}

Status WriteText(const std::string& path, const std::string& text) {
  if (path == "-") return std::fputs(text.c_str(), stdout) < 0 ? io::IoError("-", errno) : Status();
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
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

// One run of the program: what is kept in the run folder, and what is printed.
class Run {
 public:
  explicit Run(ConvnetOptions options) : options_(std::move(options)) {}

  Result<int> Go() {
    if (!options_.graph.empty()) {
      ASSIGN_OR_RETURN(const convnets::NetSpec spec, convnets::MakeNet(options_.train.net));
      RETURN_IF_ERROR(WriteText(options_.graph, convnets::GraphDot(spec)));
      return 0;
    }
    if (!options_.run.path.empty() && Chief()) {
      ASSIGN_OR_RETURN(auto folder, trainer::RunFolder::Open(options_.run));
      folder_.emplace(std::move(folder));
    }
    const double begin_s = SteadyNow();
    RETURN_IF_ERROR(OpenImages());
    if (options_.rate_falls) PlanRate();
    RETURN_IF_ERROR(JoinJob());
    ASSIGN_OR_RETURN(
        trainer_, convnets::NetTrainer::Create(options_.train, *train_images_, test_images_.get(),
                                               Observer(), job_.get()));
    RETURN_IF_ERROR(BeginFolder());
    PrintHead(SteadyNow() - begin_s);
    RETURN_IF_ERROR(FromText(profile_.Start(options_.profile)));
    const Result<NetSummary> summary = Train();
    Status status = summary.status();
    if (status.ok() && !summary->stopped && !ModelPath().empty() && Chief()) {
      status = trainer_->SaveModel(ModelPath());
    }
    if (status.ok() && job_) {
      wire_ = job_->wire();
      workers_ = job_->workers();
      status = job_->Leave();
    }
    const Status profiled = FromText(profile_.Finish());
    if (status.ok()) status = profiled;
    RETURN_IF_ERROR(EndFolder(status, summary));
    RETURN_IF_ERROR(status);
    PrintEnd(*summary);
    return summary->stopped ? kExitInterrupted : 0;
  }

 private:
  // Worker 0 of a job, and a process by itself.
  bool Chief() const { return options_.train.worker == 0; }

  // All workers come to the same number. A step of a synchronous job has a batch of each of them.
  void PlanRate() {
    convnets::NetTrainOptions worker = options_.train;
    uint64_t sum = 0, most = 0;
    for (worker.worker = 0; worker.worker < worker.workers; ++worker.worker) {
      const uint64_t batches = worker.Batches(train_images_->size());
      sum += batches;
      most = std::max(most, batches);
    }
    const bool together = options_.job && options_.job->config.mode == ps::Mode::kSync;
    options_.train.update.fall_steps = together ? most : sum;
    if (options_.job) options_.job->config.dense = options_.train.update;
  }

  Status JoinJob() {
    if (!options_.job) return {};
    options_.job->on_note = PrintNote;
    options_.job->should_stop = [this] { return GivesUp(); };
    ASSIGN_OR_RETURN(job_, convnets::ServerJob::Join(*options_.job));
    profiler::SetClockOffset(job_->clock_offset_ns());
    return {};
  }

  // Whether to end a wait for the others. A worker that was asked to stop first waits for the chief
  // to end the job with a checkpoint of all servers.
  bool GivesUp() {
    if (!Interrupted()) return false;
    if (Chief()) return true;
    double never = 0;
    asked_to_stop_s_.compare_exchange_strong(never, SteadyNow());
    return SteadyNow() - asked_to_stop_s_ > kChiefSeconds;
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

  convnets::NetObserver Observer() {
    convnets::NetObserver observer;
    observer.on_test = [this](const NamedRow& row) { return OnTest(row); };
    observer.before_checkpoint = [this] { return log_ ? log_->Sync() : Status(); };
    observer.on_note = PrintNote;
    observer.on_progress = [this](uint64_t examples) { OnProgress(examples); };
    observer.should_stop = Interrupted;
    observer.now_s = SteadyNow;
    return observer;
  }

  Status BeginFolder() {
    if (!folder_) return {};
    trainer::RunInfo info;
    info.program = kProgram;
    info.version = MILLRACE_VERSION;
    info.flags = ConvnetFlagValues();
    info.seed = options_.train.seed;
    info.host = trainer::DescribeHost();
    info.pid = ::getpid();
    info.start_time_s = WallNow();
    info.resumed_step = trainer_->resumed_step();
    RETURN_IF_ERROR(folder_->Begin(info));
    RETURN_IF_ERROR(
        WriteText(folder_->path() + "/graph.dot", convnets::GraphDot(trainer_->spec())));
    NamedRow columns;
    columns.test = convnets::NetMetrics(0, 0, 0);
    ASSIGN_OR_RETURN(auto log, trainer::MetricsLog::Open({.run_dir = folder_->path(),
                                                          .host = info.host.name,
                                                          .wall_time_s = WallNow(),
                                                          .resume_step = trainer_->resumed_step(),
                                                          .columns = columns}));
    log_.emplace(std::move(log));
    if (trainer_->resumed_step()) return {};  // the first event file has the graph
    return log_->AddGraph(convnets::GraphDef(trainer_->spec()), WallNow());
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
    std::printf("job       worker %llu of %llu, %llu server%s, %s, %s a step each way",
                static_cast<unsigned long long>(options_.job->worker),
                static_cast<unsigned long long>(c.num_workers),
                static_cast<unsigned long long>(c.num_shards), c.num_shards == 1 ? "" : "s",
                ps::ModeName(c.mode), BytesText(job_->bytes_a_step()).c_str());
    if (c.mode == ps::Mode::kSync) {
      const uint64_t replicas = c.replicas_to_aggregate ? c.replicas_to_aggregate : c.num_workers;
      std::printf("; effective batch %s", WithCommas(replicas * options_.train.batch_size).c_str());
    }
    std::printf("\n");
  }

  Result<NetSummary> Train() {
    const uint64_t all = options_.train.epochs * train_images_->size();
    const uint64_t most = options_.train.max_examples;
    progress_.emplace(ProgressOptions{
        .work = "training", .unit = "images", .total = most > 0 ? std::min(most, all) : all});
    Result<NetSummary> summary = trainer_->Run();
    progress_.reset();
    return summary;
  }

  void OnProgress(uint64_t examples) {
    if (examples > shown_) progress_->Add(examples - shown_);
    shown_ = examples;
  }

  Status OnTest(const NamedRow& row) {
    std::printf("%s\n", convnets::NetConsoleLine(row).c_str());
    std::fflush(stdout);
    return log_ ? log_->Append(row, WallNow()) : Status();
  }

  std::string ModelPath() const {
    if (!options_.model_out.empty()) return options_.model_out;
    return folder_ ? folder_->model() + "/model.bin" : "";
  }

  Status EndFolder(const Status& status, const Result<NetSummary>& summary) {
    if (!folder_) return {};
    trainer::RunEnd end;
    end.end_time_s = WallNow();
    end.message = status.message();
    end.status = trainer::RunStatus::kFailed;
    if (status.ok()) {
      end.status =
          summary->stopped ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFinished;
      if (summary->last_test) end.metrics = summary->last_test->test;
    }
    return folder_->Finish(end);
  }

  void PrintEnd(const NetSummary& s) const {
    const double rate = static_cast<double>(s.examples_here) / std::max(s.train_seconds, 1e-9);
    std::printf("\ntrained   %s images in %s steps, progressive loss %.5f\n",
                WithCommas(s.examples).c_str(), WithCommas(s.steps).c_str(), s.mean_loss);
    std::printf("time      %s, of it %s training: %.*f images/s; waited %s for input\n",
                DurationText(s.seconds).c_str(), DurationText(s.train_seconds).c_str(),
                rate < 1000 ? 1 : 0, rate, DurationText(s.input_wait_seconds).c_str());
    std::printf("memory    %s at most\n", BytesText(PeakMemoryBytes()).c_str());
    if (job_) std::printf("%s", WireText(wire_, s.examples_here).c_str());
    if (job_ && Chief()) std::printf("%s\n", WorkerTable(workers_, s.seconds).c_str());
    if (s.stopped) {
      std::printf("stopped   by a signal%s\n", folder_ ? "; go on with the same flags and --resume"
                                                       : "; nothing was kept (no --run_dir)");
    } else if (!ModelPath().empty()) {
      std::printf("model     %s\n", ModelPath().c_str());
    }
    if (folder_) std::printf("run       %s\n", folder_->path().c_str());
  }

  ConvnetOptions options_;
  std::optional<trainer::RunFolder> folder_;
  std::optional<trainer::MetricsLog> log_;
  std::unique_ptr<convnets::ImageSet> train_images_, test_images_;
  std::unique_ptr<convnets::ServerJob> job_;
  std::vector<ps::WireStats> wire_;       // at the end of the job
  std::vector<ps::WorkerStats> workers_;  // likewise
  std::unique_ptr<convnets::NetTrainer> trainer_;
  profiler::Session profile_;
  std::optional<Progress> progress_;
  uint64_t shown_ = 0;
  std::atomic<double> asked_to_stop_s_ = 0;  // 0: not yet
};

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(ConvnetSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (line->action == ParsedLine::Action::kHelp)
    return std::fputs(HelpText(ConvnetSpec()).c_str(), stdout) < 0;
  if (line->action == ParsedLine::Action::kVersion)
    return std::fputs(VersionText(kProgram).c_str(), stdout) < 0;
  const Result<ConvnetOptions> options = ConvnetOptionsFromFlags();
  if (!options.ok()) return Fail(kProgram, options.status());
  CatchInterrupts();
  IgnoreBrokenPipes();
  Run run(*options);
  const Result<int> code = run.Go();
  return code.ok() ? *code : Fail(kProgram, code.status());
}

}  // namespace
}  // namespace millrace::tools

int main(int argc, char** argv) { return millrace::tools::Main({argv + 1, argv + argc}); }
