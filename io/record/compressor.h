// SPDX-License-Identifier: Apache-2.0
// Compression: of a stream, piece by piece (byte_source.h has the other direction), and of single
// blocks of bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/byte_source.h"

namespace millrace::io {

// Not thread-safe.
class Compressor {
 public:
  virtual ~Compressor() = default;
  // Compresses `in` and appends the finished part to `out`; the rest stays buffered.
  virtual Status Add(std::string_view in, RawBuffer& out) = 0;
  // Appends the buffered rest. Add must not follow.
  virtual Status Finish(RawBuffer& out) = 0;
};

// Null for Compression::kNone. Level 0 stands for 6 with gzip and zlib, 1 with zstd. A level out of
// range is an error.
Result<std::unique_ptr<Compressor>> MakeCompressor(Compression compression, int level);

// zstd frames of single blocks; its memory is reused. Not thread-safe.
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
