// Streams of bytes from files, FIFOs and standard input, with gzip, zlib and zstd undone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

enum class Compression { kNone, kGzip, kZlib, kZstd };
const char* CompressionName(Compression compression);
// Accepts "none", "gzip", "zlib", "zstd".
Result<Compression> CompressionFromName(std::string_view name);

// Not thread-safe; one reader at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out` as far as the data goes: a return below out.size() means that the end was reached.
  // After an error, `delivered` bytes of `out` are still good, and nothing more will come.
  virtual Status Read(std::span<char> out, size_t* delivered) = 0;
};

// What the first bytes of the data say, whatever the file is called. A valid TFRecord header wins
// over a magic number that it might contain by chance.
Compression DetectCompression(std::string_view first_bytes);

struct OpenedSource {
  std::unique_ptr<ByteSource> bytes;  // decompressed
  Compression compression = Compression::kNone;
  // Size on disk; -1 where it is not known beforehand (FIFO, standard input).
  int64_t file_bytes = -1;
};

// Undoes `compression` of `bytes`; `name` stands for the file in messages.
OpenedSource Decompressed(std::unique_ptr<ByteSource> bytes, const std::string& name,
                          Compression compression);

// For a directory where a file belongs.
Status DirectoryError(const std::string& path);

// Opens `path` ("-" is standard input) and detects the compression from the content. A directory is
// an error.
Result<OpenedSource> OpenSource(const std::string& path);

}  // namespace millrace::io
