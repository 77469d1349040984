// SPDX-License-Identifier: Apache-2.0
// millrace-lr: trains and evaluates sparse logistic regression.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "profiler/clock.h"
#include "profiler/session.h"
#include "tools/common/help.h"
#include "tools/common/job_table.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/remote_flags.h"
#include "tools/common/run_record.h"
#include "tools/dashboard/dashboard.h"
#include "tools/lr/lr_flags.h"
#include "tools/lr/sweep_run.h"
#include "trainer/model/model_reader.h"
#include "trainer/sparse/auto_rate.h"

namespace millrace::lr {
namespace {

using dashboard::Dashboard;
using tools::Answer;
using tools::CatchInterrupts;
using tools::CheckedStatus;
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

constexpr char kProgram[] = "millrace-lr";

// One run of the program: its run folder and its console output.
class Run final : public AnyRun {
 public:
  explicit Run(LrOptions options)
      : options_(std::move(options)),
        record_({.program = kProgram,
                 .run = options_.run,
                 .profile = options_.profile,
                 .flags = LrFlagValues(),
                 .seed = options_.train.train.seed,
                 .in_job = options_.session.has_value()}) {}

  Result<int> Go() override {
    return record_.Conduct(
        Chief(), [this] { return Work(); }, [this] { PrintEnd(*summary_); });
  }

 private:
  Result<RunOutcome> Work() {
    RETURN_IF_ERROR(StartDashboard());
    const double begin_s = NowSeconds();
    RETURN_IF_ERROR(ChooseStart());
    RETURN_IF_ERROR(JoinJob());
    ASSIGN_OR_RETURN(trainer_,
                     trainer::SparseTrainer::Create(options_.train, Observer(), cluster_.get()));
    if (!record_.has_begun()) RETURN_IF_ERROR(record_.Begin(trainer_->resumed_step()));
    PrintHead(NowSeconds() - begin_s);
    RETURN_IF_ERROR(record_.StartProfile());
    Result<TrainSummary> summary = Train();
    Status status = summary.status();
    if (status.ok() && cluster_) report_ = cluster_->Report();
    if (status.ok() && summary->end != TrainSummary::End::kStopped) status = SaveModel();
    if (status.ok() && summary->end != TrainSummary::End::kStopped && options_.save_state) {
      status = trainer_->SaveState();
    }
    if (status.ok()) warnings_ = Warnings(*summary);
    if (status.ok() && cluster_) status = cluster_->Leave();
    const Status profiled = record_.FinishProfile();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(profiled);
    summary_ = *summary;
    RunOutcome outcome = {.stopped = summary_->end == TrainSummary::End::kStopped,
                          .steps = summary_->steps};
    if (summary_->last_row) outcome.metrics = summary_->last_row->test;
    outcome.best = trainer::BestOf(summary_->state);
    outcome.warnings = warnings_;
    return outcome;
  }

  // Before the job is joined: all workers must agree on the rate.
  Status ChooseStart() {
    options_.train.train.should_stop = Interrupted;
    const bool continues = options_.continues;
    ASSIGN_OR_RETURN(start_, continues ? trainer::ChooseContinuedStart(options_.train)
                                       : trainer::ChooseStart(options_.train));
    trainer::ApplyStart(start_, options_.train);
    record_.SetStart(start_);
    if (!start_.note.empty() && Chief()) record_.Note(start_.note);
    return {};
  }

  // Worker 0 of a job, and a process by itself.
  bool Chief() const { return WorkerNumber() == 0; }
  uint64_t WorkerNumber() const { return options_.session ? options_.session->worker : 0; }

  Status JoinJob() {
    if (!options_.session) return {};
    options_.session->wait.on_note = [this](const std::string& note) { record_.Note(note); };
    options_.session->wait.should_stop = Interrupted;
    ASSIGN_OR_RETURN(cluster_,
                     trainer::ClusterBackend::Join(*options_.session, options_.train,
                                                   [this](std::optional<uint64_t> resumed_step) {
                                                     return record_.Begin(resumed_step);
                                                   }));
    profiler::SetClockOffset(cluster_->clock_offset_ns());
    return {};
  }

  trainer::TrainObserver Observer() {
    trainer::TrainObserver observer;
    observer.on_best = [this](const MetricsRow&) { return SaveBest(); };
    observer.on_evaluation = [this](const MetricsRow& row) { return OnEvaluation(row); };
    observer.before_checkpoint = [this] { return record_.Sync(); };
    observer.on_note = [this](const std::string& note) { record_.Note(note); };
    observer.on_progress = [this](uint64_t examples, double loss) {
      record_.ShowProgress(examples, loss, trainer_->EstimateExamples());
    };
    observer.should_stop = Interrupted;
    observer.now_s = NowSeconds;
    return observer;
  }

  Status StartDashboard() {
    if (options_.dashboard_port == 0 || !Chief()) return {};
    Result<std::unique_ptr<Dashboard>> started =
        Dashboard::Start({.port = options_.dashboard_port, .run_dir = record_.folder()->path()});
    if (!started.ok())
      return {started.status().code(), "--dashboard: " + started.status().message()};
    dashboard_ = std::move(*started);
    std::fprintf(stderr, "%s: live page at %s\n", kProgram, dashboard_->url().c_str());
    return {};
  }

  void PrintHead(double seconds) const {
    const trainer::TrainOptions& o = options_.train;
    std::printf("model     %s%s%s, %s, rate %g%s\n",
                o.shape.num_features > 0 ? (WithCommas(o.shape.num_features) + " features").c_str()
                                         : "hashed keys (any 64-bit key)",
                o.shape.intercept ? "" : " without intercept", KindText(o.shape.factors).c_str(),
                sparse::RuleName(o.update.rule), o.update.Rate(), NormalizeText(o.update).c_str());
    if (!start_.trials.empty()) PrintTrials();
    if (options_.session) PrintJob(*options_.session);
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
    if (!o.continue_from.empty() && !trainer_->resumed_step()) {
      std::printf("continued from %s\n", o.continue_from.c_str());
    }
    if (!o.test.files.empty() && Chief()) {
      std::printf("\n%s\n", trainer::FormatConsoleHeader().c_str());
    }
    std::fflush(stdout);
  }

  // Nothing for an lr.
  static std::string KindText(const sparse::FactorShape& factors) {
    if (factors.kind == sparse::ModelKind::kLr) return "";
    return ", " + sparse::KindText(factors);
  }

  static std::string NormalizeText(const sparse::UpdateOptions& update) {
    if (!update.normalize) return "";
    const size_t centered = update.centers.size();
    return ", normalized values" +
           (centered == 0 ? "" : " (" + Counted(centered, "centered feature") + ")");
  }

  void PrintTrials() const {
    double loss = 0;
    for (const trainer::RateTrial& trial : start_.trials) {
      if (trial.rate == start_.rate) loss = trial.loss;
    }
    const bool held_out = start_.passes > 1;
    const std::string passes = std::to_string(start_.passes) + " passes over";
    std::printf("rate      %g of %g .. %g (%s loss %.4f %s %s)\n", start_.rate,
                start_.trials.front().rate, start_.trials.back().rate,
                held_out ? "held-out" : "progressive", loss,
                held_out ? passes.c_str() : "over the first", Counted(start_.rows, "row").c_str());
  }

  void PrintJob(const ps::SessionOptions& session) const {
    const ps::JobConfig& config = session.config;
    std::printf("job       worker %llu of %llu, %zu server%s, %s",
                static_cast<unsigned long long>(session.worker),
                static_cast<unsigned long long>(config.num_workers), session.thrift.servers.size(),
                session.thrift.servers.size() == 1 ? "" : "s", ps::ModeName(config.mode));
    if (config.mode == ps::Mode::kSync) {
      const uint64_t replicas =
          config.replicas_to_aggregate ? config.replicas_to_aggregate : config.num_workers;
      std::printf(": effective batch %s",
                  WithCommas(replicas * options_.train.train.batch_size).c_str());
    }
    std::printf("\n");
  }

  Result<TrainSummary> Train() {
    record_.StartProgress("examples", options_.train.max_examples,
                          trainer_->resumed_step().has_value());
    Result<TrainSummary> summary = trainer_->Run();
    record_.EndProgress();
    return summary;
  }

  Status OnEvaluation(const MetricsRow& row) {
    return record_.Append(trainer::FormatConsoleLine(row), row);
  }

  // Empty without a run folder.
  std::string InFolder(const char* name) const {
    if (!record_.folder()) return "";
    const std::string path = record_.folder()->model() + "/" + name;
    switch (options_.model_format) {
      case trainer::ModelFormat::kBinary:
        return path + ".bin";
      case trainer::ModelFormat::kText:
        return path + ".txt";
      case trainer::ModelFormat::kNpy:
        return path + ".npy";
    }
    return "";
  }

  std::string ModelPath() const {
    return options_.model_out.empty() ? InFolder("model") : options_.model_out;
  }

  Status SaveBest() {
    if (!record_.folder()) return {};
    RETURN_IF_ERROR(
        trainer_->SaveModel(InFolder("best"), options_.model_format, io::AtPath::kReplace));
    saved_best_ = true;
    return record_.folder()->RemoveOtherBest(InFolder("best"));
  }

  // A resumed run may end before it reaches a better evaluation of the part that was killed.
  std::string BestFileWarning(uint64_t best_step) const {
    if (saved_best_ || best_step == 0 || !record_.folder()) return "";
    const auto file = trainer::ModelReader::Open(InFolder("best"));
    if (options_.model_format == trainer::ModelFormat::kNpy) return "";  // has no step
    if (file.ok() && (*file)->info().steps == best_step) return "";
    return InFolder("best") +
           (file.ok() ? " is of step " + std::to_string((*file)->info().steps)
                      : std::string(" is missing or cannot be read")) +
           ", expected step " + std::to_string(best_step) +
           ": the run was killed after a later evaluation, which this part has not repeated";
  }

  std::vector<std::string> Warnings(const TrainSummary& s) const {
    std::vector<std::string> warnings = trainer_->Warnings(s);
    if (!Chief()) return warnings;
    if (s.new_examples == 0 && s.end == TrainSummary::End::kDone) {
      warnings.push_back(
          "nothing was left to train on: the checkpoint is as far as --epochs and --max_examples "
          "go");
    }
    if (report_) warnings.push_back(LostText(report_->workers));
    warnings.push_back(BestFileWarning(s.state.early_stop.best_step));
    if (ModelPath().empty() && s.end != TrainSummary::End::kStopped) {
      warnings.push_back("no model was kept: --run_dir or --model_out says where to");
    }
    std::erase(warnings, "");
    return warnings;
  }

  Status SaveModel() {
    if (ModelPath().empty() || !Chief()) return {};
    const auto at_path = options_.model_out.empty() ? io::AtPath::kReplace : io::AtPath::kFollow;
    return trainer_->SaveModel(ModelPath(), options_.model_format, at_path);
  }

  void PrintEnd(const TrainSummary& s) const {
    const uint64_t here = Chief() ? s.new_examples : s.own_examples;
    const double rate = static_cast<double>(here) / std::max(s.seconds, 1e-9);
    if (Chief()) {
      std::printf("\ntrained   %s in %s, progressive loss %.5f\n",
                  Counted(s.examples, "example").c_str(), Counted(s.steps, "step").c_str(),
                  s.mean_loss);
    } else {
      std::printf("\ntrained   %s of its own part\n",
                  Counted(s.state.own.examples, "example").c_str());
    }
    std::printf("time      %s, %s examples/s with evaluation; waited %s for input\n",
                DurationText(s.seconds).c_str(),
                WithCommas(static_cast<uint64_t>(std::llround(rate))).c_str(),
                DurationText(trainer_->input().caller_wait_seconds).c_str());
    if (report_) PrintJobEnd(*report_, s);
    if (s.end == TrainSummary::End::kEarlyStop) {
      std::printf("stopped   early: no better %s in %s\n", s.state.early_stop.metric.c_str(),
                  Counted(s.state.early_stop.evaluations_since_best, "evaluation").c_str());
    }
    if (s.end == TrainSummary::End::kStopped) {
      std::printf("stopped   by a signal%s\n", !options_.run.path.empty()
                                                   ? "; continue with the same flags and --resume"
                                                   : "; nothing was kept (no --run_dir)");
    } else if (!ModelPath().empty()) {
      std::printf("model     %s\n", ModelPath().c_str());
    }
    if (Chief() && s.state.early_stop.best_step > 0) PrintBest(s.state.early_stop);
    for (const std::string& warning : warnings_) std::printf("warning   %s\n", warning.c_str());
    if (record_.folder()) std::printf("run       %s\n", record_.folder()->path().c_str());
  }

  void PrintBest(const trainer::EarlyStopState& best) const {
    std::printf("best      %s (%s %.5f, step %s)\n",
                record_.folder() ? InFolder("best").c_str() : "not kept without --run_dir",
                best.metric.c_str(), best.best, WithCommas(best.best_step).c_str());
  }

  void PrintJobEnd(const trainer::JobReport& report, const TrainSummary& s) const {
    const uint64_t worker = WorkerNumber();
    const bool known = worker < report.workers.size();
    std::printf("%s", WireText(report.wire, known ? report.workers[worker].examples : 0).c_str());
    if (!Chief()) return;
    std::printf("%s\n", WorkerTable(report.workers, s.seconds).c_str());
  }

  LrOptions options_;
  trainer::StartChoice start_;
  RunRecord record_;
  std::unique_ptr<trainer::ClusterBackend> cluster_;  // null: one process
  std::unique_ptr<trainer::SparseTrainer> trainer_;
  std::unique_ptr<Dashboard> dashboard_;
  std::optional<trainer::JobReport> report_;  // at the end of a job
  bool saved_best_ = false;                   // by this process
  std::optional<TrainSummary> summary_;       // at the end
  std::vector<std::string> warnings_;         // the same
};

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(LrSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto answered = Answer(LrSpec(), line->action)) return *answered;
  tools::UseRemoteFlags(kProgram);
  const Result<LrOptions> options = LrOptionsFromFlags();
  if (!options.ok()) return Fail(kProgram, options.status());
  CatchInterrupts();
  IgnoreBrokenPipes();  // a closed output must not end the training
  std::unique_ptr<AnyRun> run;
  if (options->sweep.empty()) {
    run = std::make_unique<Run>(*options);
  } else {
    run = MakeSweepRun(*options);
  }
  const Result<int> code = run->Go();
  const int status = code.ok() ? *code : Fail(kProgram, code.status());
  // All output is written. An input thread may be blocked in a read, so no thread is joined.
  const int checked = CheckedStatus(kProgram, status);
  std::fflush(nullptr);
  std::_Exit(checked);
}

}  // namespace
}  // namespace millrace::lr

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::lr::kProgram, millrace::lr::Main, argc, argv);
}
