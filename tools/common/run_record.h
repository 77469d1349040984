// What a training program keeps of its run, and its progress line: run folder, metrics log, trace
// and samples. lr and convnet differ in what they train, not in this.
#pragma once

#include <cstdint>
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

// Seconds since some moment, that no change of the clock disturbs; and since 1970.
double SteadyNow();
double WallNow();

// Whether a model can be written to `path` when it is there, found out before anything is learnt.
// No path is fine.
io::Status CheckModelOut(const std::string& path);

struct RunRecordOptions {
  const char* program = "";
  trainer::RunFolderOptions run;  // an empty path: nothing is kept
  profiler::SessionOptions profile;
  std::vector<std::pair<std::string, std::string>> flags;
  uint64_t seed = 0;
  trainer::NamedRow columns = trainer::Named({});  // see MetricsLogOptions
};

// Not thread-safe. A process that does not call Open keeps nothing but its trace and samples, and
// every call is fine: so it is with the workers of a job but the first.
class RunRecord {
 public:
  explicit RunRecord(RunRecordOptions options) : options_(std::move(options)) {}

  // Makes the folder and locks it; touches nothing of an earlier run.
  io::Status Open();
  // Erases what is to be overwritten; writes run.json and begins the metrics log. To be called
  // once.
  io::Status Begin(std::optional<uint64_t> resumed_step);
  bool has_begun() const { return begun_; }
  // An error if a run is to be resumed that is finished and has left no checkpoint.
  io::Status CheckResumable() const;
  // The end of the run for run.json, if it has begun. `status` is an error: the run failed.
  io::Status Finish(const io::Status& status, bool stopped,
                    std::vector<trainer::NamedValue> metrics);

  io::Status StartProfile();
  io::Status FinishProfile();

  io::Status Append(const trainer::NamedRow& row);
  io::Status AddGraph(const std::string& graph_def);
  // Before a checkpoint, see MetricsLog.
  io::Status Sync();

  void StartProgress(const char* unit, uint64_t total);
  void ShowProgress(uint64_t examples);
  void EndProgress() { progress_.reset(); }

  // Null without a folder.
  const trainer::RunFolder* folder() const { return folder_ ? &*folder_ : nullptr; }

 private:
  RunRecordOptions options_;
  std::optional<trainer::RunFolder> folder_;
  bool begun_ = false;  // run.json is written
  std::optional<trainer::MetricsLog> log_;
  profiler::Session profile_;
  std::optional<Progress> progress_;
  uint64_t shown_ = 0;
};

}  // namespace millrace::tools
