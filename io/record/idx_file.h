// SPDX-License-Identifier: Apache-2.0
// IDX, the format of the MNIST files: a big-endian header, then the items one after the other.
//
//   +---+---+------+-------+--------------+-----------------------+------------------+
//   | 0 | 0 | type | ndims | count u32 BE | further dims, u32 BE  | count items      |
//   +---+---+------+-------+--------------+-----------------------+------------------+
//
// Only type 8 (unsigned bytes) is supported, with 1 dimension (labels) or 3 (images: count, rows,
// columns).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/record/byte_source.h"

namespace millrace::io {

// Whether IdxFile reads a file with these first bytes.
bool IsIdxHeader(std::string_view first);

// Not thread-safe.
class IdxFile {
 public:
  // Compressed files are decompressed. Any other header is an error, and so is an uncompressed file
  // whose size contradicts its header, unless `short_file` allows it to end early.
  static Result<IdxFile> Open(const std::string& path, bool short_file);

  const std::string& path() const { return path_; }
  bool is_images() const { return dimensions_ == 3; }
  uint32_t count() const { return count_; }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }

  // The next item's bytes, valid until the next call. Call CheckEnd after the last item.
  Result<std::string_view> Next();
  // An error if bytes follow the last item.
  Status CheckEnd();

 private:
  IdxFile() = default;
  Status ReadHeader();
  Status CheckFileSize(int64_t file_bytes, bool short_file) const;
  Status Fill();

  std::string path_;
  OpenedSource source_;
  int dimensions_ = 0;
  uint32_t count_ = 0;
  uint32_t rows_ = 1;
  uint32_t columns_ = 1;
  size_t item_bytes_ = 1;
  uint32_t taken_ = 0;
  std::string buffer_;
  size_t begin_ = 0;  // of the unread part of buffer_
};

}  // namespace millrace::io
