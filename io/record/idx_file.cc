// SPDX-License-Identifier: Apache-2.0
#include "io/record/idx_file.h"

#include <algorithm>
#include <cstdio>

namespace millrace::io {
namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr uint64_t kMaxItemBytes = 64 << 20;

uint32_t LoadBigEndian(const char* p) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
}

constexpr uint32_t kLabels = 0x801, kImages = 0x803;

}  // namespace

bool IsIdxHeader(std::string_view first) {
  if (first.size() < 4) return false;
  const uint32_t magic = LoadBigEndian(first.data());
  return magic == kLabels || magic == kImages;
}

Result<IdxFile> IdxFile::Open(const std::string& path, bool short_file) {
  IdxFile file;
  file.path_ = path;
  ASSIGN_OR_RETURN(file.source_, OpenSource(path));
  RETURN_IF_ERROR(file.ReadHeader());
  RETURN_IF_ERROR(file.CheckFileSize(file.source_.file_bytes, short_file));
  return file;
}

Status IdxFile::ReadHeader() {
  char header[16] = {};
  size_t delivered = 0;
  RETURN_IF_ERROR(source_.bytes->Read({header, 4}, &delivered));
  const uint32_t magic = LoadBigEndian(header);
  if (!IsIdxHeader({header, delivered})) {
    char found[11];
    std::snprintf(found, sizeof found, "0x%08x", magic);
    return Corrupt(path_ +
                   ": offset 0: expected 0x00000801 (labels) or 0x00000803 (images), found " +
                   (delivered == 4 ? found : "the end of the file"));
  }
  dimensions_ = static_cast<int>(magic & 0xff);
  const size_t sizes = 4 * static_cast<size_t>(dimensions_);
  RETURN_IF_ERROR(source_.bytes->Read({header + 4, sizes}, &delivered));
  if (delivered != sizes) {
    return Corrupt(path_ + ": offset 4: expected " + std::to_string(sizes) +
                   " bytes of dimensions, found " + std::to_string(delivered));
  }
  count_ = LoadBigEndian(header + 4);
  if (!is_images()) return {};
  rows_ = LoadBigEndian(header + 8);
  columns_ = LoadBigEndian(header + 12);
  const uint64_t item = uint64_t{rows_} * columns_;
  if (item == 0 || item > kMaxItemBytes) {
    return Corrupt(path_ + ": offset 8: expected images of 1 to " + std::to_string(kMaxItemBytes) +
                   " bytes, found " + std::to_string(rows_) + " x " + std::to_string(columns_));
  }
  item_bytes_ = item;
  return {};
}

Status IdxFile::CheckFileSize(int64_t file_bytes, bool short_file) const {
  if (source_.compression != Compression::kNone || file_bytes < 0) return {};
  const uint64_t expected =
      4 + 4 * static_cast<uint64_t>(dimensions_) + uint64_t{count_} * item_bytes_;
  const auto found = static_cast<uint64_t>(file_bytes);
  if (found == expected || (found < expected && short_file)) return {};
  return Corrupt(path_ + ": expected " + std::to_string(expected) +
                 " bytes as its header says, found " + std::to_string(found));
}

Status IdxFile::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + std::max(kReadBytes, item_bytes_));
  size_t delivered = 0;
  const Status read = source_.bytes->Read({buffer_.data() + had, buffer_.size() - had}, &delivered);
  buffer_.resize(had + delivered);
  return read;
}

Result<std::string_view> IdxFile::Next() {
  CHECK(taken_ < count_);
  if (buffer_.size() - begin_ < item_bytes_) RETURN_IF_ERROR(Fill());
  if (buffer_.size() - begin_ < item_bytes_) {
    return Corrupt(path_ + ": item " + std::to_string(taken_) + " of " + std::to_string(count_) +
                   ": expected " + std::to_string(item_bytes_) + " bytes, found " +
                   std::to_string(buffer_.size() - begin_));
  }
  const std::string_view item(buffer_.data() + begin_, item_bytes_);
  begin_ += item_bytes_;
  ++taken_;
  return item;
}

Status IdxFile::CheckEnd() {
  if (buffer_.size() == begin_) RETURN_IF_ERROR(Fill());
  if (buffer_.size() == begin_) return {};
  return Corrupt(path_ + ": expected the end of the file after " + std::to_string(count_) +
                 " items, found more bytes");
}

}  // namespace millrace::io
