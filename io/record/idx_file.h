// IDX, the format of the MNIST files: a big-endian header, then the items one after the other.
//
//   +---+---+------+-------+--------------+-----------------------+------------------+
//   | 0 | 0 | type | ndims | count u32 BE | further dims, u32 BE  | count items      |
//   +---+---+------+-------+--------------+-----------------------+------------------+
//
// Type 8 (unsigned bytes) alone is read, with 1 dimension (labels) or 3 (images: count, rows,
// columns).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/record/byte_source.h"

namespace millrace::io {

// Whether a file that begins so is one that IdxFile reads.
bool IsIdxHeader(std::string_view first);

// Not thread-safe.
class IdxFile {
 public:
  // Compressed files are decompressed. A header that is not as above is an error, and so is a plain
  // file whose size is not what its header says, unless `short_file` allows it to end early.
  static Result<IdxFile> Open(const std::string& path, bool short_file);

  const std::string& path() const { return path_; }
  bool is_images() const { return dimensions_ == 3; }
  uint32_t count() const { return count_; }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }

  // The next item's bytes, valid until the next call. After the last one: CheckEnd.
  Result<std::string_view> Next();
  // Nothing may follow the last item.
  Status CheckEnd();

 private:
  IdxFile() = default;
  Status ReadHeader();
  Status CheckFileSize(int64_t file_bytes, bool short_file) const;
  Status Fill();

  std::string path_;
  io::OpenedSource source_;
  int dimensions_ = 0;
  uint32_t count_ = 0;
  uint32_t rows_ = 1;
  uint32_t columns_ = 1;
  size_t item_bytes_ = 1;
  uint32_t taken_ = 0;
  std::string buffer_;
  size_t begin_ = 0;  // of what is left in buffer_
};

}  // namespace millrace::io
