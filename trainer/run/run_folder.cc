// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/run_folder.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <vector>

#include "io/base/regular_file.h"
#include "io/record/output_file.h"
#include "io/state/checkpoint_folder.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

// What a run writes, as fnmatch(3) takes it. Files that are being written have .tmp in their names.
constexpr const char* kRunFiles[] = {
    "metrics.csv",       "metrics.jsonl",      "events.out.tfevents.*", "trace-*.json",
    "trace-all.json.gz", "recent-*.json",      "recent-*.json.tmp",     "watched",
    "resources-*.csv",   "report.html",        "compare.html",          "predictions.csv",
    "graph.dot",         "report.html.tmp-*",  "compare.html.tmp-*",    "predictions.csv.tmp-*",
    "graph.dot.tmp-*",   "trace-*.json.tmp-*", "progress.json",         "sweep.csv",
    "sweep.csv.tmp-*"};
#define TWELVE_DIGITS "[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]"
constexpr const char* kCheckpointFiles[] = {"checkpoint-" TWELVE_DIGITS,
                                            "checkpoint-" TWELVE_DIGITS ".tmp-*", "manifest",
                                            "manifest.tmp-*"};
#undef TWELVE_DIGITS
constexpr const char* kModelFiles[] = {"model.bin", "model.txt", "model.npy"};
constexpr const char* kBestFiles[] = {"best.bin", "best.txt", "best.npy"};
// Temporary files of a run that was killed. A run that begins holds the folder's lock, and its
// processes do not write these files yet.
constexpr const char* kTemporaryFiles[] = {
    "run.json.tmp-*",   "metrics.csv.tmp-*", "metrics.jsonl.tmp-*", "writable.tmp-*",
    "manifest.tmp-*",   "model.*.tmp-*",     "best.*.tmp-*",        "recent-*.json.tmp",
    "trace-*.json.tmp", "progress.json*"};

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return IoError("cannot make the folder " + path, error.value());
  if (!fs::is_directory(path, error)) return IoError("cannot use " + path, ENOTDIR);
  return {};
}

// Writes a file: permissions alone do not show full or read-only disks.
Status CheckWritable(const std::string& folder) {
  ASSIGN_OR_RETURN(io::OutputFile probe,
                   io::OutputFile::Create(folder + "/writable", io::AtPath::kReplace));
  return probe.Write("?");
}

Result<int> Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError("cannot open the folder " + path, errno);
  // Some network file systems have no locks. The user must keep runs apart there.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  close(fd);
  return Invalid(path + " is in use by a run that is still going: wait for its end, stop it, " +
                 "or choose another run_dir");
}

std::string EarlierStatus(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path + "/run.json", ignored)) return "";
  const std::string status = StatusInRunJson(ReadRunJson(path));
  return status.empty() ? "unknown" : status;
}

Result<std::vector<fs::path>> Entries(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) return IoError("cannot list " + folder, error.value());
  return entries;
}

// Removes the regular files and links of a folder that have one of the names; what else is there is
// not ours. The target of a link stays.
Status RemoveFiles(const std::string& folder, std::span<const char* const> names) {
  ASSIGN_OR_RETURN(const auto entries, Entries(folder));
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const bool ours = std::any_of(names.begin(), names.end(), [&](const char* pattern) {
      return fnmatch(pattern, name.c_str(), 0) == 0;
    });
    std::error_code error;
    if (!ours || fs::is_directory(fs::symlink_status(entry, error))) continue;
    if (!fs::remove(entry, error) && error) {
      return IoError("cannot remove " + entry.string(), error.value());
    }
  }
  return {};
}

// Each server of a job has its own folder.
Status RemoveCheckpoints(const std::string& folder) {
  RETURN_IF_ERROR(RemoveFiles(folder, kCheckpointFiles));
  ASSIGN_OR_RETURN(const auto entries, Entries(folder));
  for (const fs::path& entry : entries) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(fs::symlink_status(entry, ignored));
    if (!is_folder || !entry.filename().string().starts_with("shard-")) continue;
    RETURN_IF_ERROR(RemoveFiles(entry, kCheckpointFiles));
    fs::remove(entry, ignored);  // unless there is something else in it
  }
  return {};
}

// What a sweep writes for each configuration: a folder with its number.
Status RemoveSweep(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(folder, ignored))) return {};
  ASSIGN_OR_RETURN(const auto entries, Entries(folder));
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const bool is_ours = fs::is_directory(fs::symlink_status(entry, ignored)) &&
                         name.find_first_not_of("0123456789") == name.npos;
    if (!is_ours) continue;
    RETURN_IF_ERROR(RemoveFiles(entry, kRunFiles));
    RETURN_IF_ERROR(RemoveFiles(entry, kModelFiles));
    RETURN_IF_ERROR(RemoveFiles(entry, kTemporaryFiles));
    fs::remove(entry, ignored);  // unless there is something else in it
  }
  fs::remove(folder, ignored);
  return {};
}

}  // namespace

Result<RunFolder> RunFolder::Open(const RunFolderOptions& options) {
  if (options.path.empty()) return Invalid("run_dir is empty: expected a folder for the results");
  if (options.resume && options.overwrite) {
    return Invalid(
        "resume continues the run in run_dir, overwrite erases it: expected one of them");
  }
  RETURN_IF_ERROR(MakeFolder(options.path));
  ASSIGN_OR_RETURN(const int lock, Lock(options.path));
  RunFolder folder(options.path, options.overwrite, lock);
  folder.earlier_status_ = EarlierStatus(options.path);
  if (folder.earlier_status_.empty() && io::HasCheckpoints(folder.checkpoints())) {
    folder.earlier_status_ = "unknown";  // its run.json is gone
  }
  if (!options.resume && !options.overwrite) RETURN_IF_ERROR(folder.Refusal());
  for (const std::string& part : {folder.checkpoints(), folder.model()})
    RETURN_IF_ERROR(io::MakeRealFolder(part));
  for (const std::string& part : {folder.path(), folder.checkpoints(), folder.model()})
    RETURN_IF_ERROR(CheckWritable(part));
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      overwrite_(other.overwrite_),
      lock_(std::exchange(other.lock_, -1)),
      earlier_status_(std::move(other.earlier_status_)),
      info_(std::move(other.info_)) {}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(overwrite_, other.overwrite_);
  std::swap(lock_, other.lock_);
  std::swap(earlier_status_, other.earlier_status_);
  std::swap(info_, other.info_);
  return *this;
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

Status RunFolder::Refusal() const {
  if (earlier_status_.empty()) return {};
  const std::string kind = earlier_status_ == "running" ? "killed" : earlier_status_;
  return Invalid(path_ + " holds an earlier run (" + kind + "): choose another run_dir, " +
                 "continue that run with resume, or erase it with overwrite");
}

Status RunFolder::Begin(const RunInfo& info) {
  if (overwrite_ && !earlier_status_.empty()) RETURN_IF_ERROR(EraseEarlierRun());
  for (const std::string& part : {path_, checkpoints(), model()})
    RETURN_IF_ERROR(RemoveFiles(part, kTemporaryFiles));
  // A run that starts anew has no best model yet, even if a killed one has left its own.
  if (!info.resumed_step && !earlier_status_.empty())
    RETURN_IF_ERROR(RemoveFiles(model(), kBestFiles));
  info_ = info;
  return WriteRunJson(RunJson(info_, std::nullopt));
}

// run.json goes last, by being replaced: a run that is half erased is still known as one.
Status RunFolder::EraseEarlierRun() const {
  RETURN_IF_ERROR(RemoveFiles(path_, kRunFiles));
  RETURN_IF_ERROR(RemoveSweep(sweep()));
  RETURN_IF_ERROR(RemoveCheckpoints(checkpoints()));
  return RemoveFiles(model(), kModelFiles);
}

Status RunFolder::RemoveOtherBest(const std::string& path) const {
  std::vector<const char*> others;
  for (const char* name : kBestFiles) {
    if (fs::path(path).filename() != name) others.push_back(name);
  }
  return RemoveFiles(model(), others);
}

Status RunFolder::Finish(const RunEnd& end) { return WriteRunJson(RunJson(info_, end)); }

Status RunFolder::WriteRunJson(const std::string& text) const {
  ASSIGN_OR_RETURN(io::OutputFile file,
                   io::OutputFile::Create(path_ + "/run.json", io::AtPath::kReplace));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

std::string ReadRunJson(const std::string& run_dir) {
  Result<std::string> text = ReadRegularFile(run_dir + "/run.json");
  return text.ok() ? std::move(*text) : std::string();
}

Result<std::string> ModelFileOf(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"/model/model.bin", "/model/model.txt", "/model.bin", "/model.txt"}) {
    if (fs::is_regular_file(path + name, ignored)) return path + name;
  }
  const bool is_run = fs::exists(path + "/run.json", ignored);
  const std::string best = path + "/model/best.bin";
  return NotFound(
      path + ": expected a model, found a folder without model/model.bin" +
      (is_run ? ": this run has not finished, or wrote its model elsewhere" : "") +
      (fs::is_regular_file(best, ignored) ? " (" + best + " is its best model so far)" : ""));
}

}  // namespace millrace::trainer
