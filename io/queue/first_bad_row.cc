// SPDX-License-Identifier: Apache-2.0
#include "io/queue/first_bad_row.h"

#include <filesystem>

#include "io/record/block_reader.h"
#include "io/table/table_reader.h"

namespace millrace::io {
namespace {

constexpr uint64_t kMaxSearchBytes = 256 << 20;

class Search {
 public:
  Search(const InputOptions& options, const BadRow& found)
      : options_(options),
        found_(found),
        framing_(FramingOf(options.format)),
        decoder_(MakeRowDecoder(options.format, options.rows)) {}

  BadRow Run() {
    for (const std::string& file : options_.files) {
      const bool is_last = file == *found_.origin.path;
      if (IsRegularInput(file)) SearchFile(file, is_last);
      if (is_last || done_) break;
    }
    return found_;
  }

 private:
  void SearchFile(const std::string& file, bool is_last) {
    BlockOptions blocks = options_.Stream().blocks;
    blocks.on_corrupt = OnCorrupt::kFail;
    const auto reader = OpenBlocks(file, blocks);
    Block block;
    while (!done_ && reader.ok()) {
      const Result<bool> more = (*reader)->Next(block);
      if (!more.ok() || !*more) return;
      for (size_t i = 0; i < block.records.size() && !done_; ++i) {
        const uint64_t offset = block.offset(i, framing_);
        done_ = is_last && offset >= found_.origin.offset;
        if (!done_) Decode(block.record(i), {&file, offset});
      }
      searched_ += block.bytes.size();
      done_ |= searched_ > kMaxSearchBytes;
    }
  }

  void Decode(std::string_view record, const RecordOrigin& origin) {
    rows_.Clear(NeedsWideKeys(options_.rows.num_features));
    const Status status = decoder_->Append(record, rows_);
    if (status.ok()) return;
    found_ = {origin, status};
    done_ = true;
  }

  const InputOptions& options_;
  BadRow found_;
  const Framing framing_;
  const std::unique_ptr<RowDecoder> decoder_;
  BatchBuilder rows_;
  uint64_t searched_ = 0;
  bool done_ = false;
};

}  // namespace

BadRow FirstBadRow(const InputOptions& options, const BadRow& found) {
  // Without a shuffle, rows come in the order of the files. Other errors than of a row depend on
  // the batch.
  const bool in_order = options.shuffle_capacity == 0 && options.num_shards == 1;
  if (in_order || found.what.code() != Code::kCorrupt) return found;
  return Search(options, found).Run();
}

}  // namespace millrace::io
