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
  static Result<RecordReader> Open(const std::string& path, BlockOptions options = {});

  // True and a record, false at the end, or an error that names file, offset, expected and found.
  // After an error no more records come. With OnCorrupt::kSkip, damage is counted in `corruption()`
  // instead.
  Result<bool> Next(RecordView& record);

  const CorruptionStats& corruption() const { return blocks_->corruption(); }
  Compression compression() const { return blocks_->compression(); }

 private:
  RecordReader(std::unique_ptr<BlockReader> blocks, Framing framing)
      : blocks_(std::move(blocks)), framing_(framing) {}

  std::unique_ptr<BlockReader> blocks_;
  Framing framing_;
  Block block_;
  size_t next_ = 0;
};

}  // namespace millrace::io
