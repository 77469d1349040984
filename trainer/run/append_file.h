// SPDX-License-Identifier: Apache-2.0
// A file that grows by whole rows: a reader never sees a partial row.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "io/base/status.h"

namespace millrace::trainer {

// Not thread-safe. Errors name the file.
class AppendFile {
 public:
  // Creates the file if it is not there. A symbolic link or a FIFO is an error.
  static Result<AppendFile> Open(const std::string& path);
  AppendFile(AppendFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  AppendFile& operator=(AppendFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~AppendFile();

  // One write, all or nothing. On return the row is in the file, even if the process is killed.
  Status Append(std::string_view row);
  // After this call the rows also survive a loss of power.
  Status Sync();

  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

}  // namespace millrace::trainer
