// SPDX-License-Identifier: Apache-2.0
// The output of a training program: run folder, metrics log, trace, resource samples and progress
// line. millrace-lr and millrace-convnet share it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "profiler/session.h"
#include "tools/common/progress.h"
#include "trainer/run/metrics_log.h"
#include "trainer/run/run_folder.h"

namespace millrace::tools {

// Seconds since 1970.
double WallNow();

// Checks before the training that a model can be written to `path`. An empty path is fine.
Status CheckModelOut(const std::string& path);

struct RunRecordOptions {
  const char* program = "";
  trainer::RunFolderOptions run;  // an empty path: no files are written
  profiler::SessionOptions profile;
  std::vector<std::pair<std::string, std::string>> flags;
  uint64_t seed = 0;
  bool in_job = false;  // a job with servers
  trainer::MetricsRow columns = trainer::MetricsLogOptions().columns;
};

// The result of a run.
struct RunOutcome {
  bool stopped = false;  // by a signal
  uint64_t steps = 0;    // in total, with the earlier parts of a resumed run
  std::vector<trainer::NamedValue> metrics = {};  // of the last evaluation
  std::optional<trainer::BestEvaluation> best = {};
  std::vector<std::string> warnings = {};
};

// Not thread-safe. Workers other than the chief write only their trace and samples; all other calls
// do nothing there.
class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options) : options_(std::move(options)) {}

  // Runs the whole training and returns the exit status. `work` trains; it calls Begin after all
  // checks that precede the training. `print_end` prints the summary. A `chief` owns the folder. A
  // run to resume that has already finished with the same flags is not changed. A job is different:
  // its other workers may not know this, so it repeats the steps after its last checkpoint.
  Result<int> Conduct(bool chief, const std::function<Result<RunOutcome>()>& work,
                      const std::function<void()>& print_end);

  // For run.json; before Begin.
  void SetStart(trainer::StartChoice start) { start_ = std::move(start); }
  // Erases an earlier run if it is to be overwritten, writes run.json and opens the metrics log. To
  // be called once.
  Status Begin(std::optional<uint64_t> resumed_step);
  bool has_begun() const { return begun_; }

  Status StartProfile();
  Status FinishProfile();

  // Prints `line` on standard output and adds the row to the metrics log.
  Status Append(const std::string& line, const trainer::MetricsRow& row);
  // The two parts of it.
  void PrintLine(const std::string& line);
  Status AppendRow(const trainer::MetricsRow& row);
  // Prints "program: note" on standard error.
  void Note(const std::string& note);
  Status AddGraph(const std::string& graph_def);
  // To be called before a checkpoint, see MetricsLog.
  Status Sync();

  // In a resumed run, the examples of the first ShowProgress belong to the earlier part.
  void StartProgress(const char* unit, uint64_t total, bool resumed);
  // `estimate`: of the examples at the end, for a live page, if StartProgress did not know them.
  void ShowProgress(uint64_t examples, std::optional<double> loss = std::nullopt,
                    uint64_t estimate = 0);
  void EndProgress();

  // Null without a folder.
  const trainer::RunFolder* folder() const { return folder_ ? &*folder_ : nullptr; }

 private:
  // Creates and locks the folder. Does not change an earlier run.
  Status Open();
  void WriteProgress(uint64_t total);
  // An error if the run to resume is finished and has no checkpoint.
  Status CheckResumable() const;
  bool IsFinished() const;  // the run to resume
  bool HasCheckpoint() const;
  // Writes the result to run.json, if the run has begun.
  Status Finish(const Result<RunOutcome>& outcome);
  // Adds the changed flags to the error of a resumed run that could not begin.
  Status Explain(const Status& status) const;
  std::string ChangesText() const;

  RunRecordOptions options_;
  std::string earlier_;                       // the run.json of the run to resume
  std::vector<trainer::FlagChange> changes_;  // since that run, without those that may change
  std::optional<trainer::RunFolder> folder_;
  std::optional<trainer::StartChoice> start_;
  bool begun_ = false;  // run.json is written
  std::optional<trainer::MetricsLog> log_;
  profiler::Session profile_;
  std::optional<Progress> progress_;
  ProgressOptions progress_options_;  // until the first examples of a resumed run are known
  uint64_t shown_ = 0;
  double next_file_s_ = 0;  // when WriteProgress may write again
};

}  // namespace millrace::tools
