// Compression of a stream, piece by piece: the opposite of what byte_source.h undoes.
#pragma once

#include <memory>
#include <string_view>

#include "io/base/raw_buffer.h"
#include "io/base/status.h"
#include "io/record/byte_source.h"

namespace millrace::io {

// Not thread-safe.
class Compressor {
 public:
  virtual ~Compressor() = default;
  // Compresses `in` and appends what is ready to `out`; some may stay inside until later.
  virtual Status Add(std::string_view in, RawBuffer& out) = 0;
  // Appends the rest. Nothing can be added afterwards.
  virtual Status Finish(RawBuffer& out) = 0;
};

// Null for Compression::kNone. Level 0 stands for 6 with gzip and zlib, 1 with zstd; one out of
// range is an error.
Result<std::unique_ptr<Compressor>> MakeCompressor(Compression compression, int level);

}  // namespace millrace::io
