// millrace-lr: trains and tests sparse logistic regression.

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "profiler/session.h"
#include "tools/common/interrupt.h"
#include "tools/common/job_table.h"
#include "tools/common/progress.h"
#include "tools/dashboard/dashboard.h"
#include "tools/lr/lr_flags.h"
#include "trainer/run/host_info.h"
#include "trainer/run/metrics_log.h"

namespace millrace::tools {
namespace {

using io::Result;
using io::Status;
using trainer::MetricsRow;
using trainer::TrainSummary;

constexpr char kProgram[] = "millrace-lr";
constexpr int kExitInterrupted = 130;

double SteadyNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double WallNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The profiler knows no Status: it says what went wrong, or nothing.
Status FromText(const std::string& error) {
  return error.empty() ? Status() : Status(io::Code::kIo, error);
}

// One run of the program: what is kept in the run folder, and what is printed.
class Run {
 public:
  explicit Run(LrOptions options) : options_(std::move(options)) {}

  Result<int> Go() {
    if (!options_.run.path.empty() && Chief()) {
      ASSIGN_OR_RETURN(auto folder, trainer::RunFolder::Open(options_.run));
      folder_.emplace(std::move(folder));
    }
    const double begin_s = SteadyNow();
    ASSIGN_OR_RETURN(trainer_, trainer::SparseTrainer::Create(options_.train, Observer()));
    if (folder_ && folder_->earlier_status() == "finished" && options_.run.resume &&
        !trainer_->resumed_step()) {
      return io::Invalid(folder_->path() +
                         " holds a finished run without checkpoints: nothing to resume; expected " +
                         "another --run_dir, or --overwrite");
    }
    if (!log_) RETURN_IF_ERROR(BeginFolder(trainer_->resumed_step()));
    profiler::SetClockOffset(trainer_->clock_offset_ns());
    PrintHead(SteadyNow() - begin_s);
    RETURN_IF_ERROR(FromText(profile_.Start(options_.profile)));
    RETURN_IF_ERROR(StartDashboard());
    const Result<TrainSummary> summary = Train();
    Status status = summary.status();
    if (status.ok() && summary->end != TrainSummary::End::kStopped) status = SaveModel();
    if (status.ok()) status = trainer_->Leave();
    const Status profiled = FromText(profile_.Finish());
    if (status.ok()) status = profiled;
    RETURN_IF_ERROR(EndFolder(status, summary));
    RETURN_IF_ERROR(status);
    PrintEnd(*summary);
    return summary->end == TrainSummary::End::kStopped ? kExitInterrupted : 0;
  }

 private:
  // Worker 0 of a job, and a process by itself.
  bool Chief() const { return WorkerNumber() == 0; }
  uint64_t WorkerNumber() const {
    return options_.train.cluster ? options_.train.cluster->worker : 0;
  }

  trainer::TrainObserver Observer() {
    trainer::TrainObserver observer;
    observer.on_test = [this](const MetricsRow& row) { return OnTest(row); };
    observer.before_checkpoint = [this] { return log_ ? log_->Sync() : Status(); };
    observer.before_start = [this](std::optional<uint64_t> resumed_step) {
      return BeginFolder(resumed_step);
    };
    observer.on_note = [](const std::string& note) {
      std::fprintf(stderr, "%s: %s\n", kProgram, note.c_str());
    };
    observer.on_progress = [this](uint64_t examples, double) { OnProgress(examples); };
    observer.should_stop = Interrupted;
    observer.now_s = SteadyNow;
    return observer;
  }

  Status BeginFolder(std::optional<uint64_t> resumed_step) {
    if (!folder_) return {};
    trainer::RunInfo info;
    info.program = kProgram;
    info.version = MILLRACE_VERSION;
    info.flags = LrFlagValues();
    info.seed = options_.train.train.seed;
    info.host = trainer::DescribeHost();
    info.pid = ::getpid();
    info.start_time_s = WallNow();
    info.resumed_step = resumed_step;
    RETURN_IF_ERROR(folder_->Begin(info));
    ASSIGN_OR_RETURN(auto log, trainer::MetricsLog::Open({.run_dir = folder_->path(),
                                                          .host = info.host.name,
                                                          .wall_time_s = WallNow(),
                                                          .resume_step = resumed_step}));
    log_.emplace(std::move(log));
    return {};
  }

  Status StartDashboard() {
    if (options_.dashboard_port == 0 || !Chief()) return {};
    ASSIGN_OR_RETURN(dashboard_, Dashboard::Start({.port = options_.dashboard_port,
                                                   .run_dir = folder_->path()}));
    std::fprintf(stderr, "%s: live page at %s\n", kProgram, dashboard_->url().c_str());
    return {};
  }

  void PrintHead(double seconds) const {
    const trainer::TrainOptions& o = options_.train;
    std::printf("model     %s, %s, rate %g\n",
                o.shape.num_features > 0 ? (WithCommas(o.shape.num_features) + " features").c_str()
                                         : "open (any 64-bit key)",
                sparse::RuleName(o.update.rule), o.update.Rate());
    if (o.cluster) PrintJob(*o.cluster);
    std::printf("data      %zu training and %zu test files, batches of %zu, seed %llu\n",
                o.train.files.size(), o.test.files.size(), o.train.batch_size,
                static_cast<unsigned long long>(o.train.seed));
    std::printf("machine   %s (%s), 1 training thread, %zu input thread%s; ready in %s\n",
                trainer_->direct() ? "steps on the weights themselves" : "compacted batches",
                trainer_->kernels().instructions, o.train.threads, o.train.threads == 1 ? "" : "s",
                DurationText(seconds).c_str());
    if (o.hogwild > 1) {
      std::printf(
          "hogwild   %llu threads update the same weights without locks: not deterministic\n",
          static_cast<unsigned long long>(o.hogwild));
    }
    if (trainer_->resumed_step()) {
      std::printf("resumed   from the checkpoint of step %s\n",
                  WithCommas(*trainer_->resumed_step()).c_str());
    }
    if (!o.test.files.empty() && Chief()) {
      std::printf("\n%s\n", trainer::FormatConsoleHeader().c_str());
    }
    std::fflush(stdout);
  }

  void PrintJob(const trainer::ClusterOptions& c) const {
    std::printf("job       worker %llu of %llu, %zu server%s, %s",
                static_cast<unsigned long long>(c.worker),
                static_cast<unsigned long long>(c.num_workers), c.servers.servers.size(),
                c.servers.servers.size() == 1 ? "" : "s", ps::ModeName(c.mode));
    if (c.mode == ps::Mode::kSync) {
      const uint64_t replicas = c.replicas_to_aggregate ? c.replicas_to_aggregate : c.num_workers;
      std::printf(": effective batch %s",
                  WithCommas(replicas * options_.train.train.batch_size).c_str());
    }
    std::printf("\n");
  }

  Result<TrainSummary> Train() {
    progress_.emplace(ProgressOptions{
        .work = "training", .unit = "examples", .total = options_.train.max_examples});
    Result<TrainSummary> summary = trainer_->Run();
    progress_.reset();
    return summary;
  }

  void OnProgress(uint64_t examples) {
    if (examples > shown_) progress_->Add(examples - shown_);
    shown_ = examples;
  }

  Status OnTest(const MetricsRow& row) {
    std::printf("%s\n", trainer::FormatConsoleLine(row).c_str());
    std::fflush(stdout);
    return log_ ? log_->Append(row, WallNow()) : Status();
  }

  std::string ModelPath() const {
    if (!options_.model_out.empty()) return options_.model_out;
    if (!folder_) return "";
    switch (options_.model_format) {
      case trainer::ModelFormat::kBinary:
        return folder_->model() + "/model.bin";
      case trainer::ModelFormat::kText:
        return folder_->model() + "/model.txt";
      case trainer::ModelFormat::kNpy:
        return folder_->model() + "/model.npy";
    }
    return "";
  }

  Status SaveModel() {
    if (ModelPath().empty() || !Chief()) return {};
    return trainer_->SaveModel(ModelPath(), options_.model_format);
  }

  Status EndFolder(const Status& status, const Result<TrainSummary>& summary) {
    if (!folder_) return {};
    trainer::RunEnd end;
    end.end_time_s = WallNow();
    end.message = status.message();
    end.status = trainer::RunStatus::kFailed;
    if (status.ok()) {
      const bool stopped = summary->end == TrainSummary::End::kStopped;
      end.status = stopped ? trainer::RunStatus::kInterrupted : trainer::RunStatus::kFinished;
      if (summary->last_test) end.metrics = trainer::NamedValues(summary->last_test->test);
    }
    return folder_->Finish(end);
  }

  void PrintEnd(const TrainSummary& s) const {
    const double rate = static_cast<double>(s.examples_here) / std::max(s.seconds, 1e-9);
    std::printf("\ntrained   %s examples in %s steps, progressive loss %.5f\n",
                WithCommas(s.examples).c_str(), WithCommas(s.steps).c_str(), s.mean_loss);
    std::printf("time      %s, %s examples/s with tests; waited %s for input\n",
                DurationText(s.seconds).c_str(),
                WithCommas(static_cast<uint64_t>(std::llround(rate))).c_str(),
                DurationText(s.input.caller_wait_seconds).c_str());
    if (s.job) PrintJobEnd(*s.job, s);
    if (s.loss.events > 0) {
      std::printf("skipped   %s damaged places, %s; the first: %s\n",
                  WithCommas(s.loss.events).c_str(), BytesText(s.loss.bytes).c_str(),
                  s.loss.first.c_str());
    }
    if (s.end == TrainSummary::End::kEarlyStop)
      std::printf("stopped   early, as --early_stop says\n");
    if (s.end == TrainSummary::End::kStopped) {
      std::printf("stopped   by a signal%s\n", !options_.run.path.empty()
                                                   ? "; go on with the same flags and --resume"
                                                   : "; nothing was kept (no --run_dir)");
    } else if (!ModelPath().empty()) {
      std::printf("model     %s\n", ModelPath().c_str());
    }
    if (folder_) std::printf("run       %s\n", folder_->path().c_str());
  }

  void PrintJobEnd(const trainer::JobReport& report, const TrainSummary& s) const {
    const uint64_t worker = WorkerNumber();
    const bool known = worker < report.workers.size();
    std::printf("%s", WireText(report.wire, known ? report.workers[worker].examples : 0).c_str());
    if (Chief()) std::printf("%s\n", WorkerTable(report.workers, s.seconds).c_str());
  }

  LrOptions options_;
  std::optional<trainer::RunFolder> folder_;
  std::optional<trainer::MetricsLog> log_;
  std::unique_ptr<trainer::SparseTrainer> trainer_;
  std::optional<Progress> progress_;
  profiler::Session profile_;
  std::unique_ptr<Dashboard> dashboard_;
  uint64_t shown_ = 0;
};

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(LrSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (line->action == ParsedLine::Action::kHelp)
    return std::fputs(HelpText(LrSpec()).c_str(), stdout) < 0;
  if (line->action == ParsedLine::Action::kVersion)
    return std::fputs(VersionText(kProgram).c_str(), stdout) < 0;
  const Result<LrOptions> options = LrOptionsFromFlags();
  if (!options.ok()) return Fail(kProgram, options.status());
  CatchInterrupts();
  if (options->train.cluster) IgnoreBrokenPipes();
  Run run(*options);
  const Result<int> code = run.Go();
  const int status = code.ok() ? *code : Fail(kProgram, code.status());
  // Everything is written. An input thread may hang in a read that nobody will end, so nothing is
  // waited for.
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace
}  // namespace millrace::tools

int main(int argc, char** argv) { return millrace::tools::Main({argv + 1, argv + argc}); }
