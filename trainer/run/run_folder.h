// SPDX-License-Identifier: Apache-2.0
// The folder that holds all output of a run.
//
//   run.json                          what ran where, and how it ended
//   metrics.csv, metrics.jsonl,
//   events.out.tfevents.*             see metrics_log.h
//   trace-*.json, resources-*.csv, report.html
//   checkpoints/, model/ (model.*: the last, best.*: the best)
//   sweep.csv, sweep/1, sweep/2 ...   of a sweep: the results, and a folder per configuration
#pragma once

#include <string>
#include <utility>

#include "io/base/status.h"
#include "trainer/run/run_info.h"

namespace millrace::trainer {

struct RunFolderOptions {
  std::string path;
  bool resume = false;
  bool overwrite = false;
};

// The folder is locked during the lifetime of the object; a second run in it is refused. The lock
// ends with the process, even if it is killed.
class RunFolder {
 public:
  // Creates the folder if it is missing and checks that it is writable, and that the folders in it
  // are not links: files are removed there. A folder that holds a run is refused unless the options
  // allow it; Begin is the first call that changes that run. A folder without a run may be resumed
  // too: a job that was killed early starts from the beginning.
  static Result<RunFolder> Open(const RunFolderOptions& options);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&& other) noexcept;
  ~RunFolder();

  // Call it after all checks, before the training starts. Erases the earlier run if the options say
  // so (other files stay), removes temporary files of a killed run and, unless this run resumes
  // it, its best model, and writes run.json.
  Status Begin(const RunInfo& info);
  Status Finish(const RunEnd& end);

  // Removes the best models that have another name than `path`: those of other formats.
  Status RemoveOtherBest(const std::string& path) const;

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string model() const { return path_ + "/model"; }
  std::string sweep() const { return path_ + "/sweep"; }

  // The status of the run that the folder held when it was opened: "running" (it was killed),
  // "finished", "failed", "interrupted"; empty if there was none.
  const std::string& earlier_status() const { return earlier_status_; }

 private:
  RunFolder(std::string path, bool overwrite, int lock)
      : path_(std::move(path)), overwrite_(overwrite), lock_(lock) {}

  Status Refusal() const;
  Status EraseEarlierRun() const;
  Status WriteRunJson(const std::string& text) const;

  std::string path_;
  bool overwrite_ = false;
  int lock_ = -1;  // the folder itself, open and locked
  std::string earlier_status_;
  RunInfo info_;
};

// The text of the folder's run.json; empty if there is none.
std::string ReadRunJson(const std::string& run_dir);

// The model file of `path`: a file, a run folder, or the folder model/ in one. An error if such a
// folder has no model.
Result<std::string> ModelFileOf(const std::string& path);

}  // namespace millrace::trainer
