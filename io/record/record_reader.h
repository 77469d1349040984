// SPDX-License-Identifier: Apache-2.0
// Reads the records of one file, one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/record/block_reader.h"

namespace millrace::io {

struct RecordView {
  std::string_view bytes;  // valid until the next call of Next
  uint64_t offset = 0;     // of its header (or the line's first byte) in the decompressed data
};

// Not thread-safe.
class RecordReader {
 public:
  // `path` "-" is standard input.
  static Result<RecordReader> Open(const std::string& path, const BlockOptions& options = {});
  RecordReader(std::unique_ptr<BlockSource> blocks, Framing framing)
      : blocks_(std::move(blocks)), framing_(framing) {}

  // True and a record, false at the end, or an error that names file, offset, expected and found.
  // No records follow an error. With OnCorrupt::kSkip, corrupt records are counted in corruption()
  // instead.
  Result<bool> Next(RecordView& record);

  const CorruptionStats& corruption() const { return blocks_->corruption(); }
  Compression compression() const { return blocks_->compression(); }

 private:
  std::unique_ptr<BlockSource> blocks_;
  Framing framing_;
  Block block_;
  size_t next_ = 0;
};

inline Result<RecordReader> RecordReader::Open(const std::string& path,
                                               const BlockOptions& options) {
  ASSIGN_OR_RETURN(auto blocks, BlockReader::Open(path, options));
  return RecordReader(std::move(blocks), options.framing);
}

inline Result<bool> RecordReader::Next(RecordView& record) {
  if (next_ == block_.records.size()) {
    next_ = 0;
    const Result<bool> more = blocks_->Next(block_);
    if (!more.ok()) block_.records.clear();
    if (!more.ok() || !*more) return more;
  }
  record = {block_.record(next_), block_.offset(next_, framing_)};
  ++next_;
  return true;
}

}  // namespace millrace::io
