#include "io/record/record_reader.h"

namespace millrace::io {

Result<RecordReader> RecordReader::Open(const std::string& path, BlockOptions options) {
  ASSIGN_OR_RETURN(auto blocks, BlockReader::Open(path, options));
  return RecordReader(std::move(blocks), options.framing);
}

Result<bool> RecordReader::Next(RecordView& record) {
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
