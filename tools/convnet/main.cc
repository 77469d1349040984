// millrace-convnet: trains and tests softmax regression, LeNet and AlexNet.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "convnets/net/graph.h"
#include "io/record/output_file.h"
#include "profiler/session.h"
#include "tools/common/help.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
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
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
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
    if (status.ok() && job_) status = job_->Leave();
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

  Status JoinJob() {
    if (!options_.job) return {};
    options_.job->on_note = PrintNote;
    options_.job->should_stop = Interrupted;
    ASSIGN_OR_RETURN(job_, convnets::ServerJob::Join(*options_.job));
    profiler::SetClockOffset(job_->clock_offset_ns());
    return {};
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
    std::printf("learning  %s, rate %g, batches of %zu, seed %llu\n",
                sparse::DenseRuleName(o.update.rule), o.update.Rate(), o.batch_size,
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
  std::unique_ptr<convnets::NetTrainer> trainer_;
  profiler::Session profile_;
  std::optional<Progress> progress_;
  uint64_t shown_ = 0;
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
}  // namespace millrace::tools

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::tools::kProgram, millrace::tools::Main, argc, argv);
}
