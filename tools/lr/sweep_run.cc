// SPDX-License-Identifier: Apache-2.0
#include "tools/lr/sweep_run.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "io/record/output_file.h"
#include "io/state/checkpoint_folder.h"
#include "profiler/clock.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/run_record.h"
#include "tools/dashboard/dashboard.h"
#include "trainer/run/host_info.h"
#include "trainer/sparse/auto_rate.h"
#include "trainer/sweep/sweep_table.h"
#include "trainer/sweep/sweep_trainer.h"

namespace millrace::lr {
namespace {

using dashboard::Dashboard;
using tools::Counted;
using tools::DurationText;
using tools::Interrupted;
using tools::RunOutcome;
using tools::RunRecord;
using tools::WithCommas;
using trainer::MetricsLog;
using trainer::MetricsRow;
using trainer::SweepTrainer;
using trainer::TrainOptions;
using trainer::TrainSummary;

constexpr char kProgram[] = "millrace-lr";

class SweepRun final : public AnyRun {
 public:
  explicit SweepRun(LrOptions options)
      : options_(std::move(options)),
        record_({.program = kProgram,
                 .run = options_.run,
                 .profile = options_.profile,
                 .flags = LrFlagValues(),
                 .seed = options_.train.train.seed}) {}

  Result<int> Go() override {
    return record_.Conduct(
        true, [this] { return Work(); }, [this] { PrintEnd(); });
  }

 private:
  Result<RunOutcome> Work() {
    RETURN_IF_ERROR(StartDashboard());
    const double begin_s = NowSeconds();
    ASSIGN_OR_RETURN(trainer::SweepOptions sweep, ChooseStarts());
    ASSIGN_OR_RETURN(sweep_, SweepTrainer::Create(std::move(sweep), Observer()));
    RETURN_IF_ERROR(record_.Begin(std::nullopt));
    RETURN_IF_ERROR(OpenLogs());
    PrintHead(NowSeconds() - begin_s);
    RETURN_IF_ERROR(record_.StartProfile());
    record_.StartProgress("examples", options_.train.max_examples, false);
    Result<TrainSummary> summary = sweep_->Run();
    record_.EndProgress();
    Status status = summary.status();
    if (status.ok() && summary->end != TrainSummary::End::kStopped) status = Keep(*summary);
    const Status profiled = record_.FinishProfile();
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(profiled);
    summary_ = *summary;
    if (!result_) return RunOutcome{.stopped = true, .steps = summary_->steps};
    const trainer::SweptModel& best = sweep_->models()[result_->best];
    RunOutcome outcome = {.steps = best.state.steps};
    if (!best.rows.empty()) outcome.metrics = best.rows.back().test;
    outcome.best = trainer::BestOf(best.state);
    outcome.warnings = warnings_;
    return outcome;
  }

  // What a run of each configuration would choose. Only the choice of a rate depends on it.
  Result<trainer::SweepOptions> ChooseStarts() {
    trainer::SweepOptions sweep = {.models = {}, .halving = options_.sweep_halving};
    std::optional<trainer::StartChoice> common;
    for (trainer::SweepConfig& config : options_.sweep) {
      TrainOptions own = options_.train;
      own.update = config.update;
      own.train.should_stop = Interrupted;
      const bool tries_rates = own.update.rate == 0 && !options_.continues;
      trainer::StartChoice start;
      if (tries_rates || !common) {
        ASSIGN_OR_RETURN(start, options_.continues ? trainer::ChooseContinuedStart(own)
                                                   : trainer::ChooseStart(own));
        if (!tries_rates) common = start;
      } else {
        start = *common;
        start.rate = own.update.Rate();
      }
      if (!start.note.empty() && sweep.models.empty()) record_.Note(start.note);
      trainer::ApplyStart(start, own);
      own.checkpoints.clear();  // only at the end
      config.update = own.update;
      sweep.models.push_back(std::move(own));
    }
    options_.train = sweep.models.front();
    return sweep;
  }

  trainer::SweepObserver Observer() {
    trainer::SweepObserver observer;
    observer.on_row = [this](size_t model, const MetricsRow& row) {
      return logs_.empty() ? Status() : logs_[model].Append(row, tools::WallNow());
    };
    observer.on_leader = [this](size_t model, const MetricsRow& row) {
      record_.PrintLine(trainer::FormatConsoleLine(row) + "  " + std::to_string(model + 1));
      return Status();
    };
    observer.on_note = [this](const std::string& note) { record_.Note(note); };
    observer.on_progress = [this](uint64_t examples, double loss) {
      record_.ShowProgress(examples, loss);
    };
    observer.should_stop = Interrupted;
    observer.now_s = NowSeconds;
    return observer;
  }

  Status StartDashboard() {
    if (options_.dashboard_port == 0) return {};
    Result<std::unique_ptr<Dashboard>> started =
        Dashboard::Start({.port = options_.dashboard_port, .run_dir = record_.folder()->path()});
    if (!started.ok())
      return {started.status().code(), "--dashboard: " + started.status().message()};
    dashboard_ = std::move(*started);
    std::fprintf(stderr, "%s: live page at %s\n", kProgram, dashboard_->url().c_str());
    return {};
  }

  // A folder with the metrics of each configuration.
  Status OpenLogs() {
    if (!record_.folder()) return {};
    const std::string host = trainer::DescribeHost().name;
    RETURN_IF_ERROR(io::MakeRealFolder(record_.folder()->sweep()));
    for (size_t m = 0; m < options_.sweep.size(); ++m) {
      RETURN_IF_ERROR(io::MakeRealFolder(FolderOf(m)));
      ASSIGN_OR_RETURN(
          auto log, MetricsLog::Open(
                        {.run_dir = FolderOf(m), .host = host, .wall_time_s = tools::WallNow()}));
      logs_.push_back(std::move(log));
    }
    return {};
  }

  std::string FolderOf(size_t model) const {
    return record_.folder()->sweep() + "/" + std::to_string(model + 1);
  }

  std::string WithEnding(const std::string& path) const {
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
    if (!options_.model_out.empty() || !record_.folder()) return options_.model_out;
    return WithEnding(record_.folder()->model() + "/model");
  }

  // The run folder becomes that of a run of the best configuration, with the table beside it.
  Status Keep(const TrainSummary& summary) {
    ASSIGN_OR_RETURN(result_, sweep_->Compare());
    const size_t best = result_->best;
    if (record_.folder()) {
      for (const MetricsRow& row : sweep_->models()[best].rows) {
        RETURN_IF_ERROR(record_.AppendRow(row));
      }
      const std::string csv = trainer::SweepCsv(options_.sweep, sweep_->models(), *result_);
      ASSIGN_OR_RETURN(auto file, io::OutputFile::Create(record_.folder()->path() + "/sweep.csv",
                                                         io::AtPath::kReplace));
      RETURN_IF_ERROR(file.Write(csv));
      RETURN_IF_ERROR(file.Commit());
      for (MetricsLog& log : logs_) RETURN_IF_ERROR(log.Sync());
      RETURN_IF_ERROR(record_.Sync());
    }
    for (size_t m = 0; options_.sweep_models && m < sweep_->models().size(); ++m) {
      const trainer::SweepEnd end = sweep_->models()[m].end;
      if (end == trainer::SweepEnd::kDropped || end == trainer::SweepEnd::kDiverged) continue;
      RETURN_IF_ERROR(sweep_->SaveModel(m, WithEnding(FolderOf(m) + "/model"),
                                        options_.model_format, io::AtPath::kReplace));
    }
    if (!ModelPath().empty()) {
      const auto at = options_.model_out.empty() ? io::AtPath::kReplace : io::AtPath::kFollow;
      RETURN_IF_ERROR(sweep_->SaveModel(best, ModelPath(), options_.model_format, at));
    }
    if (options_.save_state) {
      RETURN_IF_ERROR(sweep_->SaveState(best, record_.folder()->checkpoints()));
    }
    warnings_ = sweep_->Warnings(best, summary);
    if (ModelPath().empty()) {
      warnings_.emplace_back("no model was kept: --run_dir or --model_out says where to");
    }
    return {};
  }

  void PrintHead(double seconds) const {
    const TrainOptions& o = options_.train;
    std::printf("sweep     %s, %s%s\n", Counted(options_.sweep.size(), "configuration").c_str(),
                sparse::RuleName(o.update.rule),
                sweep_->shares_slots() ? ", slots interleaved" : ", a table for each");
    if (options_.sweep_halving > 0) {
      std::printf("halving   after %s examples, and each time as many again\n",
                  WithCommas(options_.sweep_halving).c_str());
    }
    std::printf("data      %zu training and %zu test files, batches of %zu, seed %llu\n",
                o.train.files.size(), o.test.files.size(), o.train.batch_size,
                static_cast<unsigned long long>(o.train.seed));
    std::printf("machine   %s, 1 training thread, %zu input thread%s; ready in %s\n",
                sweep_->direct() ? "steps on the weights themselves" : "compacted batches",
                o.train.threads, o.train.threads == 1 ? "" : "s", DurationText(seconds).c_str());
    if (!o.test.files.empty()) {
      std::printf("\n%s  config\n", trainer::FormatConsoleHeader().c_str());
    }
    std::fflush(stdout);
  }

  void PrintEnd() const {
    const TrainSummary& s = *summary_;
    std::printf("\ntrained   %s in %s, %s at once\n", Counted(s.examples, "example").c_str(),
                Counted(s.steps, "step").c_str(),
                Counted(options_.sweep.size(), "configuration").c_str());
    std::printf("time      %s, %s examples/s with evaluation; waited %s for input\n",
                DurationText(s.seconds).c_str(),
                WithCommas(static_cast<uint64_t>(std::llround(static_cast<double>(s.new_examples) /
                                                              std::max(s.seconds, 1e-9))))
                    .c_str(),
                DurationText(sweep_->input().caller_wait_seconds).c_str());
    if (result_) {
      PrintResult();
    } else {
      std::printf("stopped   by a signal; a sweep has no checkpoints: nothing was kept\n");
    }
    for (const std::string& warning : warnings_) std::printf("warning   %s\n", warning.c_str());
    if (record_.folder()) std::printf("run       %s\n", record_.folder()->path().c_str());
  }

  void PrintResult() const {
    std::printf("\n%s\n", trainer::SweepText(options_.sweep, sweep_->models(), *result_).c_str());
    size_t ties = 0;
    for (const trainer::SweepComparison& own : result_->models) {
      ties += own.result == trainer::SweepResultOf::kTie;
    }
    if (ties > 0) {
      std::printf(
          "tie       %s not distinguishable from the best: the 95%% interval (of all pairs at "
          "once) contains 0\n",
          ties == 1 ? "1 configuration is"
                    : (std::to_string(ties) + " configurations are").c_str());
    }
    std::printf("best      %s\n", trainer::SweepFlags(options_.sweep[result_->best]).c_str());
    if (!ModelPath().empty()) std::printf("model     %s\n", ModelPath().c_str());
  }

  LrOptions options_;
  RunRecord record_;
  std::unique_ptr<SweepTrainer> sweep_;
  std::unique_ptr<Dashboard> dashboard_;
  std::vector<MetricsLog> logs_;                // one per configuration; none without a run folder
  std::optional<trainer::SweepResult> result_;  // at the end
  std::optional<TrainSummary> summary_;         // the same
  std::vector<std::string> warnings_;           // the same
};

}  // namespace

std::unique_ptr<AnyRun> MakeSweepRun(LrOptions options) {
  return std::make_unique<SweepRun>(std::move(options));
}

}  // namespace millrace::lr
