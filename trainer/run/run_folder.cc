#include "trainer/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "io/record/output_file.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

struct NamePattern {
  std::string_view start, end;
};
constexpr NamePattern kRunFiles[] = {{"run.json.tmp-", ""},  {"metrics.csv", ""},
                                     {"metrics.jsonl", ""},  {"events.out.tfevents.", ""},
                                     {"trace-", ".json"},    {"trace-", ".json.gz"},
                                     {"recent-", ".json"},   {"watched", ""},
                                     {"resources-", ".csv"}, {"report.html", ""}};

io::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return io::IoError("cannot make the folder " + path, error.value());
  if (!fs::is_directory(path, error)) return io::IoError("cannot use " + path, ENOTDIR);
  return {};
}

// By writing: permissions alone do not know of full or read-only disks.
io::Status CheckWritable(const std::string& folder) {
  ASSIGN_OR_RETURN(io::OutputFile probe, io::OutputFile::Create(folder + "/writable"));
  return probe.Write("?");
}

io::Result<int> Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io::IoError("cannot open the folder " + path, errno);
  // Some network file systems know no locks; there the user has to take care.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return fd;
  close(fd);
  return io::Invalid(path + " is in use by a run that is still going: wait for its end, stop it, " +
                     "or choose another --run_dir");
}

std::string EarlierStatus(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path + "/run.json", ignored)) return "";
  const std::string status = StatusInRunJson(ReadRunJson(path));
  return status.empty() ? "unknown" : status;
}

bool IsRunFile(const std::string& name) {
  return std::any_of(std::begin(kRunFiles), std::end(kRunFiles), [&](const NamePattern& pattern) {
    return name.starts_with(pattern.start) && name.ends_with(pattern.end);
  });
}

io::Result<std::vector<fs::path>> Entries(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) return io::IoError("cannot list " + folder, error.value());
  return entries;
}

io::Status Remove(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? io::IoError("cannot remove " + path.string(), error.value()) : io::Status();
}

io::Status RemoveContent(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto entries, Entries(folder));
  for (const fs::path& entry : entries) RETURN_IF_ERROR(Remove(entry));
  return {};
}

}  // namespace

io::Result<RunFolder> RunFolder::Open(const RunFolderOptions& options) {
  if (options.path.empty()) return io::Invalid("--run_dir is empty: name a folder for the results");
  if (options.resume && options.overwrite) {
    return io::Invalid(
        "--resume goes on with the run in --run_dir, --overwrite erases it: "
        "give one of them");
  }
  RETURN_IF_ERROR(MakeFolder(options.path));
  ASSIGN_OR_RETURN(const int lock, Lock(options.path));
  RunFolder folder(options.path, options.overwrite, lock);
  folder.earlier_status_ = EarlierStatus(options.path);
  if (!options.resume && !options.overwrite) RETURN_IF_ERROR(folder.Refusal());
  for (const std::string& part : {folder.path(), folder.checkpoints(), folder.model()}) {
    RETURN_IF_ERROR(MakeFolder(part));
    RETURN_IF_ERROR(CheckWritable(part));
  }
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

io::Status RunFolder::Refusal() const {
  if (earlier_status_.empty()) return {};
  const std::string kind = earlier_status_ == "running" ? "killed" : earlier_status_;
  return io::Invalid(path_ + " holds an earlier run (" + kind + "): choose another --run_dir, " +
                     "or go on with that run by --resume, or erase it by --overwrite");
}

io::Status RunFolder::Begin(const RunInfo& info) {
  if (overwrite_ && !earlier_status_.empty()) RETURN_IF_ERROR(EraseEarlierRun());
  info_ = info;
  return WriteRunJson(RunJson(info_, std::nullopt));
}

// run.json goes last, by being replaced: a run that is half erased is still known as one.
io::Status RunFolder::EraseEarlierRun() const {
  ASSIGN_OR_RETURN(const auto entries, Entries(path_));
  for (const fs::path& entry : entries) {
    if (IsRunFile(entry.filename().string())) RETURN_IF_ERROR(Remove(entry));
  }
  RETURN_IF_ERROR(RemoveContent(checkpoints()));
  return RemoveContent(model());
}

io::Status RunFolder::Finish(const RunEnd& end) { return WriteRunJson(RunJson(info_, end)); }

io::Status RunFolder::WriteRunJson(const std::string& text) const {
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path_ + "/run.json"));
  RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

std::string ReadRunJson(const std::string& run_dir) {
  std::ifstream file(run_dir + "/run.json", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

io::Result<std::string> ModelFileOf(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"/model/model.bin", "/model/model.txt", "/model.bin", "/model.txt"}) {
    if (fs::is_regular_file(path + name, ignored)) return path + name;
  }
  const bool is_run = fs::exists(path + "/run.json", ignored);
  return io::NotFound(path + ": expected a model, found a folder without model/model.bin" +
                      (is_run ? ": this run has not finished, or wrote its model elsewhere" : ""));
}

}  // namespace millrace::trainer
