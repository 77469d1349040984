// Blocks of bytes through zstd, one at a time, with memory that is used again.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

// Not thread-safe.
class ZstdBlock {
 public:
  explicit ZstdBlock(int level = 1);
  ~ZstdBlock();
  ZstdBlock(const ZstdBlock&) = delete;
  ZstdBlock& operator=(const ZstdBlock&) = delete;

  // Appends a frame.
  Status Compress(std::string_view in, std::string& out);
  // Replaces `out` by exactly `size` bytes; a frame of any other size is corrupt.
  Status Decompress(std::string_view in, size_t size, std::string& out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  int level_;
};

}  // namespace millrace::io
