// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only after it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

// The bytes go to a temporary file in the same folder. Commit syncs and renames it; without Commit
// the destructor removes it. An existing path that is not a regular file (FIFO, device) is written
// directly; "-" and "/dev/stdout" are standard output. Errors name the file. Not thread-safe.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path);
  // For folders that others write to as well: Commit replaces whatever is at `path`, a link or a
  // FIFO too, and does not write through it. A folder at `path` is an error.
  static Result<OutputFile> CreateNew(const std::string& path);
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
