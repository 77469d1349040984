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
#include <fstream>
#include <sstream>

namespace millrace::launch {
namespace {

// `text` with only letters, digits, dots and underscores.
std::string FileName(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.'; }, '_');
  return text;
}

Status WriteAll(int fd, const std::string& path, const std::string& text) {
  const ssize_t written = ::write(fd, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  return IoError(path + ": cannot write", written < 0 ? errno : ENOSPC);
}

}  // namespace

Result<Rendezvous> Rendezvous::Open(const std::string& folder, const std::string& job, size_t rank,
                                    size_t size) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder + "/job-" + FileName(job);
  if (error || (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST))
    return IoError(path + ": cannot create the folder", error ? error.value() : errno);
  UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch || ::inotify_add_watch(watch.get(), path.c_str(), IN_MOVED_TO) < 0)
    return IoError(path + ": cannot watch the folder", errno);
  return Rendezvous(path, rank, size, std::move(watch));
}

Rendezvous::~Rendezvous() {
  if (!watch_) return;
  const Status left = Post("left-" + std::to_string(rank_), "");
  if (!left.ok() || Names("left-").size() < size_) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Status Rendezvous::Post(const std::string& name, const std::string& text) const {
  const std::string draft = PathOf(".draft-" + name);
  UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return IoError(draft + ": cannot create", errno);
  RETURN_IF_ERROR(WriteAll(fd.get(), draft, text));
  if (::rename(draft.c_str(), PathOf(name).c_str()) != 0)
    return IoError(PathOf(name) + ": cannot create", errno);
  return {};
}

std::optional<std::string> Rendezvous::Read(const std::string& name) const {
  std::ifstream file(PathOf(name), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Rendezvous::Names(const std::string& prefix) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void Rendezvous::Remove(const std::string& name) const { ::unlink(PathOf(name).c_str()); }

void Rendezvous::ClearWatch() const {
  char events[4096];
  while (::read(watch_.get(), events, sizeof events) > 0) {
  }
}

}  // namespace millrace::launch
