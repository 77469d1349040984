// What a training program keeps of its run, and its progress line: run folder, metrics log, trace
// and samples. lr and convnet differ in what they train, not in this.
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

// Whether a model can be written to `path` when it is there, found out before anything is learnt.
// No path is fine.
Status CheckModelOut(const std::string& path);

struct RunRecordOptions {
  const char* program = "";
  trainer::RunFolderOptions run;  // an empty path: nothing is kept
  profiler::SessionOptions profile;
  std::vector<std::pair<std::string, std::string>> flags;
  uint64_t seed = 0;
  bool in_job = false;  // with servers and other workers
  trainer::MetricsRow columns = trainer::MetricsLogOptions().columns;
};

// How the work of a run ended.
struct RunOutcome {
  bool stopped = false;                           // by a signal
  uint64_t steps = 0;                             // in all, earlier parts of a resumed run included
  std::vector<trainer::NamedValue> metrics = {};  // of the last test
};

// Not thread-safe. Of a job's workers, all but the chief keep nothing but their trace and samples,
// and every call is fine.
class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options) : options_(std::move(options)) {}

  // The whole run. `work` trains, with a call of Begin when nothing can go wrong any more but the
  // training itself; `print_end` says what came of it. A `chief` owns the folder. Returns the exit
  // status. A run that is to be resumed and has finished with these flags is left as it is; a job,
  // whose other workers may not know of it, does what came after its last checkpoint again.
  Result<int> Conduct(bool chief, const std::function<Result<RunOutcome>()>& work,
                      const std::function<void()>& print_end);

  // Erases what is to be overwritten; writes run.json and begins the metrics log. To be called
  // once.
  Status Begin(std::optional<uint64_t> resumed_step);
  bool has_begun() const { return begun_; }

  Status StartProfile();
  Status FinishProfile();

  // Prints `line` on standard output and keeps the row.
  Status Append(const std::string& line, const trainer::MetricsRow& row);
  // "program: note", on standard error.
  void Note(const std::string& note);
  Status AddGraph(const std::string& graph_def);
  // Before a checkpoint, see MetricsLog.
  Status Sync();

  // Of a resumed run, the examples of the first ShowProgress were learnt from before.
  void StartProgress(const char* unit, uint64_t total, bool resumed);
  void ShowProgress(uint64_t examples, std::optional<double> loss = std::nullopt);
  void EndProgress() { progress_.reset(); }

  // Null without a folder.
  const trainer::RunFolder* folder() const { return folder_ ? &*folder_ : nullptr; }

 private:
  // Makes the folder and locks it; touches nothing of an earlier run.
  Status Open();
  // An error if a run is to be resumed that is finished and has left no checkpoint.
  Status CheckResumable() const;
  bool IsFinished() const;  // the run to resume
  bool HasCheckpoint() const;
  // The end of the run for run.json, if it has begun.
  Status Finish(const Result<RunOutcome>& outcome);
  // With the flags that have changed, for a run that was resumed and could not begin.
  Status Explain(const Status& status) const;
  std::string ChangesText() const;

  RunRecordOptions options_;
  std::string earlier_;                       // the run.json of the run to resume
  std::vector<trainer::FlagChange> changes_;  // since that run, where they matter
  std::optional<trainer::RunFolder> folder_;
  bool begun_ = false;  // run.json is written
  std::optional<trainer::MetricsLog> log_;
  profiler::Session profile_;
  std::optional<Progress> progress_;
  ProgressOptions coming_;  // of progress_, where that waits for the first examples
  uint64_t shown_ = 0;
};

}  // namespace millrace::tools
