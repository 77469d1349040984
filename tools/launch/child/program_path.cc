// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/program_path.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace millrace::launch {
namespace {

// 0, or why it cannot be executed.
int ExecutionError(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

Status Failure(const std::string& message, int error) {
  const Status status = IoError(message, error);
  return error == ENOENT ? NotFound(status.message()) : status;
}

}  // namespace

std::string OwnPath() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

Result<std::string> FindProgram(const std::string& name, std::string_view search_path) {
  if (name.find('/') != std::string::npos) {
    const int error = ExecutionError(name);
    if (error == 0) return name;
    return Failure(name + ": cannot be executed", error);
  }
  const std::string own_folder = std::filesystem::path(OwnPath()).parent_path().string();
  std::string folders = own_folder + ":" + std::string(search_path);
  int error = ENOENT;
  while (!name.empty() && !folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string folder = end == 0 ? "." : folders.substr(0, end);
    const std::string path = folder + "/" + name;
    folders.erase(0, end + 1);
    const int error_here = ExecutionError(path);
    if (error_here == 0) return path;
    if (error_here == EACCES) error = EACCES;
  }
  const std::string places = "next to millrace-launch (" + own_folder + ") or in PATH";
  return Failure("'" + name + "': no program of this name " + places, error);
}

}  // namespace millrace::launch
