// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

// The bytes go to a temporary file beside `path`, which Commit syncs and renames, and which the
// destructor removes otherwise. A path that exists and is no regular file (FIFO, device) is written
// to directly; "-" and "/dev/stdout" are standard output. Errors name the file. Not thread-safe.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  // Unbuffered: hand it some hundred kilobytes at a time.
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
  std::string temporary_;  // empty: written to directly
  int fd_ = -1;            // -1: committed or moved from
  uint64_t written_ = 0;
  uint64_t writeback_ = 0;  // bytes whose way to the disk has been started
};

}  // namespace millrace::io
