// SPDX-License-Identifier: Apache-2.0
// Byte streams from files, local or remote, FIFOs and standard input, decompressed if they are
// gzip, zlib or zstd.
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
  // Fills `out`; *delivered < out.size() means that the end was reached. After an error, the first
  // `*delivered` bytes of `out` are valid, and the stream has ended.
  virtual Status Read(std::span<char> out, size_t* delivered) = 0;
  // The same, but returns what is there as soon as that is at least one byte: only *delivered == 0
  // means that the end was reached. Decompressed data and data in memory may wait for all of `out`.
  virtual Status ReadSome(std::span<char> out, size_t* delivered) { return Read(out, delivered); }
};

// Bytes in memory, which outlive the source.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  Status Read(std::span<char> out, size_t* delivered) override {
    *delivered = bytes_.copy(out.data(), out.size());
    bytes_.remove_prefix(*delivered);
    return {};
  }

 private:
  std::string_view bytes_;
};

// Detects the compression from the first bytes, not from the file name. A valid TFRecord header
// takes precedence over a magic number that it contains by chance.
Compression DetectCompression(std::string_view first_bytes);

struct OpenedSource {
  std::unique_ptr<ByteSource> bytes;  // decompressed
  Compression compression = Compression::kNone;
  // Size of the file as it is stored; -1 if it is unknown (FIFO, standard input).
  int64_t file_bytes = -1;
};

// Decompresses `bytes`; messages call them `name`.
OpenedSource Decompressed(std::unique_ptr<ByteSource> bytes, const std::string& name,
                          Compression compression);

// Whether `path` has an end and can be read twice: a regular file or a remote one.
bool IsRegularInput(const std::string& path);
// Its size as it is stored; -1 if it is unknown, and for other files.
int64_t FileBytes(const std::string& path);

// The error for a directory where a file is expected.
Status DirectoryError(const std::string& path);

// The first bytes of a file, a FIFO or standard input ("-"), decompressed.
struct FirstBytes {
  std::string bytes;  // at most kFirstBytes
  Compression compression = Compression::kNone;
};
constexpr size_t kFirstBytes = 256 << 10;
// What comes before an error is enough. A stream stays open for the next OpenSource of the same
// name, which delivers these bytes again; two lines of uncompressed text are enough, so that a
// slow writer is not waited for.
Result<FirstBytes> ReadFirstBytes(const std::string& path);

// Opens `path` ("-" is standard input; a remote name as in io/record/remote_files.h) and detects
// the compression from the content. A directory is an error. With `regular_file`, so is anything
// but a regular file: a FIFO without writer would block, and a stream cannot be read twice.
Result<OpenedSource> OpenSource(const std::string& path, bool regular_file = false);

}  // namespace millrace::io
