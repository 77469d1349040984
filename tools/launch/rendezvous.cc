// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "io/base/regular_file.h"
#include "tools/launch/child/token_file.h"

namespace millrace::launch {
namespace {

namespace fs = std::filesystem;

constexpr char kHello[] = "hello-";
constexpr char kWelcome[] = "welcome-";
constexpr char kStart[] = "start-";

// `text` with only letters, digits, dots and underscores.
std::string FileName(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.'; }, '_');
  return text;
}

// The path of a file in an open folder. Unlike the folder's own path, it cannot be redirected by
// another user who renames folders.
std::string PathIn(const UniqueFd& folder, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(folder.get()) + "/" + name;
}

Result<UniqueFd> OpenFolder(const std::string& path, const std::string& name_for_messages) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return IoError(name_for_messages + ": cannot open the folder", errno);
  return fd;
}

// The notes contain the token of the job.
Status CheckPrivate(const UniqueFd& folder, const std::string& path) {
  struct stat info = {};
  if (::fstat(folder.get(), &info) != 0) return IoError(path + ": cannot stat", errno);
  if (info.st_uid != ::geteuid()) {
    return Invalid(path + ": expected a folder of user " + std::to_string(::geteuid()) +
                   ", found one of user " + std::to_string(info.st_uid));
  }
  if ((info.st_mode & 077) == 0) return {};
  return Invalid(path + ": expected a folder that only its owner can use (chmod 700)");
}

std::vector<std::string> NamesIn(const UniqueFd& folder, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(PathIn(folder, "."), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> ReadIn(const UniqueFd& folder, const std::string& name) {
  Result<std::string> text = ReadRegularFile(PathIn(folder, name));
  return text.ok() ? std::optional(std::move(*text)) : std::nullopt;
}

Status PostIn(const UniqueFd& folder, const std::string& name, const std::string& text) {
  const std::string draft = PathIn(folder, ".draft-" + name);
  const UniqueFd fd(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return IoError(name + ": cannot create the note", errno);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    return IoError(name + ": cannot write the note", written < 0 ? errno : ENOSPC);
  if (::rename(draft.c_str(), PathIn(folder, name).c_str()) != 0)
    return IoError(name + ": cannot create the note", errno);
  return {};
}

void RemoveIn(const UniqueFd& folder, const std::string& name) {
  std::error_code ignored;
  fs::remove_all(PathIn(folder, name), ignored);
}

}  // namespace

Result<Rendezvous> Rendezvous::Open(const std::string& folder, const Rank& rank) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = folder + "/job-" + FileName(rank.starter + "-" + rank.job);
  if (error || (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST))
    return IoError(path + ": cannot create the folder", error ? error.value() : errno);
  ASSIGN_OR_RETURN(UniqueFd job, OpenFolder(path, path));
  RETURN_IF_ERROR(CheckPrivate(job, path));
  UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch) return IoError(path + ": cannot watch the folder", errno);
  ASSIGN_OR_RETURN(const std::string nonce, RandomToken());
  Rendezvous rendezvous(path, rank, nonce, std::move(job), std::move(watch));
  const Status begun = rendezvous.Begin();
  if (!begun.ok()) return Status(begun.code(), path + ": " + begun.message());
  return Result<Rendezvous>(std::move(rendezvous));
}

Status Rendezvous::Begin() {
  RETURN_IF_ERROR(Watch(job_));
  if (rank_ != 0) return PostIn(job_, kHello + std::to_string(rank_), attempt_ + " " + nonce_);
  // Not the drafts of other ranks, which can be alive.
  for (const char* stale : {kStart, kWelcome, ".draft-welcome-"})
    for (const std::string& name : NamesIn(job_, stale)) RemoveIn(job_, name);
  if (::mkdir(PathIn(job_, kStart + nonce_).c_str(), 0700) != 0)
    return IoError("cannot create a folder for notes", errno);
  return EnterStart(nonce_);
}

Status Rendezvous::EnterStart(const std::string& nonce) {
  start_name_ = kStart + nonce;
  ASSIGN_OR_RETURN(start_, OpenFolder(PathIn(job_, start_name_), path_ + "/" + start_name_));
  return Watch(start_);
}

Status Rendezvous::Watch(const UniqueFd& folder) const {
  if (::inotify_add_watch(watch_.get(), PathIn(folder, ".").c_str(), IN_MOVED_TO) >= 0) return {};
  return IoError("cannot watch the folder", errno);
}

Result<bool> Rendezvous::Meet() {
  if (rank_ == 0) {
    RETURN_IF_ERROR(AnswerRanks());
    return true;
  }
  if (start_) return true;
  const std::string number = std::to_string(rank_);
  const std::string answer = ReadIn(job_, kWelcome + number).value_or("");
  const std::string expected = attempt_ + " " + nonce_ + " ";
  if (!answer.starts_with(expected)) return false;  // none, or one for an earlier start
  RETURN_IF_ERROR(EnterStart(answer.substr(expected.size())));
  RemoveIn(job_, kHello + number);
  RemoveIn(job_, kWelcome + number);
  return true;
}

// Also answers notes of ranks that were killed; nobody reads these answers.
Status Rendezvous::AnswerRanks() {
  for (const std::string& name : NamesIn(job_, kHello)) {
    const std::string rank = name.substr(sizeof kHello - 1);
    const std::string hello = ReadIn(job_, name).value_or("");
    if (!hello.starts_with(attempt_ + " ") || answered_[rank] == hello) continue;
    RETURN_IF_ERROR(PostIn(job_, kWelcome + rank, hello + " " + nonce_));
    answered_[rank] = hello;
  }
  return {};
}

Rendezvous::~Rendezvous() {
  if (!job_) return;
  if (!start_) {
    RemoveIn(job_, kHello + std::to_string(rank_));
  } else {
    const Status left = Post("left-" + std::to_string(rank_), "");
    if (left.ok() && Names("left-").size() >= size_) {
      RemoveIn(job_, start_name_);
      // Those of ranks that were killed before they met rank 0.
      for (const auto& [rank, hello] : answered_) {
        RemoveIn(job_, kHello + rank);
        RemoveIn(job_, kWelcome + rank);
      }
    }
  }
  ::rmdir(path_.c_str());  // if it is empty
}

Status Rendezvous::Post(const std::string& name, const std::string& text) const {
  if (!start_) return {};
  const Status status = PostIn(start_, name, text);
  return status.ok() ? status : Status(status.code(), path_ + ": " + status.message());
}

std::optional<std::string> Rendezvous::Read(const std::string& name) const {
  return start_ ? ReadIn(start_, name) : std::nullopt;
}

std::vector<std::string> Rendezvous::Names(const std::string& prefix) const {
  return start_ ? NamesIn(start_, prefix) : std::vector<std::string>();
}

void Rendezvous::Remove(const std::string& name) const {
  if (start_) RemoveIn(start_, name);
}

void Rendezvous::ClearWatch() const {
  char events[4096];
  while (::read(watch_.get(), events, sizeof events) > 0) {
  }
}

}  // namespace millrace::launch
