// SPDX-License-Identifier: Apache-2.0
// Reads the files of a run folder. Whoever can write to the folder chooses their kind, size and
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::report {

// The memory that the data of a run may still take. Readers take the size of what they keep.
class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t bytes) : all_(bytes), left_(bytes) {}

  [[nodiscard]] bool Take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void Return(uint64_t bytes) { left_ += bytes; }
  uint64_t left() const { return left_; }

  // The error for a file that needs more than is left.
  Status Exceeded(const std::string& path) const;

 private:
  uint64_t all_;
  uint64_t left_;
};

// The bytes of a regular file. Links, FIFOs and devices are errors, and never block. Takes the size
// from the budget.
Result<std::string> ReadRegularFile(const std::string& path, MemoryBudget& budget);

// Decompresses `bytes` if they are gzip, zlib or zstd, and takes the size from the budget. False:
// they are plain text, and `text` is empty.
Result<bool> Expand(std::string_view bytes, const std::string& path, MemoryBudget& budget,
                    std::string& text);

// At most the first `max_bytes` of `text`, cut between UTF-8 characters.
std::string_view Shortened(std::string_view text, size_t max_bytes);

}  // namespace millrace::report
