// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only after it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

// What happens if `path` exists and is not a regular file.
enum class AtPath {
  // The user named the path: a symbolic link stays and its target is replaced; a FIFO or device is
  // written directly.
  kFollow,
  // The program made up the name, within a folder that others may write to: a symbolic link is
  // replaced and its target stays; a FIFO or device is an error.
  kReplace,
};

// The bytes go to a temporary file in the same folder. Commit syncs and renames it; without Commit
// the destructor removes it. "-" and "/dev/stdout" are standard output. Errors name the file. Not
// thread-safe.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path, AtPath at_path = AtPath::kFollow);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  // Unbuffered: pass some hundred kilobytes per call.
  Status Write(std::string_view bytes);
  Status Commit();

  const std::string& path() const { return path_; }

 private:
  OutputFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  Status Error(const char* what, int error_number) const;
  void StartWriteback();
  void Abandon();

  std::string path_;
  std::string temporary_;  // empty: `path_` is written directly
  int fd_ = -1;            // -1: committed or moved from
  uint64_t written_ = 0;
  uint64_t writeback_ = 0;  // bytes whose write to disk was started
};

}  // namespace millrace::io
