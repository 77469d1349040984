// SPDX-License-Identifier: Apache-2.0
// Gathers small pieces of an output file into large writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "io/base/status.h"
#include "io/record/output_file.h"

namespace millrace::trainer {

// After an error all writes are ignored, and Finish returns the error. Not thread-safe.
class OutputBuffer {
 public:
  explicit OutputBuffer(io::OutputFile file) : file_(std::move(file)) {}

  void Append(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kWriteBytes) Flush();
  }

  void Flush() {
    if (error_.ok() && !buffer_.empty()) error_ = file_.Write(buffer_);
    buffer_.clear();
  }

  // The file appears under its name now.
  Status Finish() {
    Flush();
    if (!error_.ok()) return error_;
    return file_.Commit();
  }

 private:
  static constexpr size_t kWriteBytes = 256 << 10;

  io::OutputFile file_;
  std::string buffer_;
  Status error_;
};

}  // namespace millrace::trainer
