// SPDX-License-Identifier: Apache-2.0
// A cache of decoded rows for later epochs, and the form in which it keeps a row: decoded, and
// quick to copy into a batch.
//
//   +-------------+-------------+-----------+----------+------------+------------------+
//   | keys K: u32 | weight: f32 | label: u8 | kind: u8 | fields: u16| K keys, u32, u64 |
//   |      4      |      4      |     1     |    1     |   0 or 1   |    4 K or 8 K    |
//   +-------------+-------------+-----------+----------+------------+------------------+
//   | values: f32 | fields: u16 |  Only rows of kind kValues have values, and only those with a
//   |  4 K or 0   |  2 K or 0   |  1 in `fields` have fields, followed by two zeros if K is odd.
//   +-------------+-------------+
//
// A record that cannot be decoded (kind kRaw) is kept as it is, after its offset (u64) in the file,
// so that every epoch reports the same error.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "io/batch/batch_builder.h"
#include "io/record/block_reader.h"
#include "io/rows/row_decoder.h"

namespace millrace::io {

// Replaces the records of `block` by cached rows. `rows` is scratch.
void CacheRows(RowDecoder& decoder, Framing framing, bool wide, BatchBuilder& rows, Block& block);

// The offset of a record of kind kRaw.
uint64_t CachedRecordOffset(std::string_view record);

// Decodes cached rows; `decoder` produces the errors of records of kind kRaw.
std::unique_ptr<RowDecoder> MakeCachedRowDecoder(std::unique_ptr<RowDecoder> decoder);

// The cached blocks of files that were read once, up to a number of bytes. Not thread-safe: the
// owner's mutex guards it.
class RowCache {
 public:
  // Shared: the end of one epoch and the beginning of the next may use a block at the same time.
  using Blocks = std::vector<std::shared_ptr<const Block>>;

  RowCache(size_t files, uint64_t max_bytes) : entries_(files), max_bytes_(max_bytes) {}

  // True once per file: the caller must then Add its blocks and call End or Abandon.
  bool Begin(size_t file);
  // False if there is no room: the file is then read again in every epoch.
  bool Add(size_t file, std::shared_ptr<const Block> block);
  void End(size_t file);
  // The read failed; a later Begin may try again.
  void Abandon(size_t file);

  // All blocks of the file; null unless it is complete.
  const Blocks* Find(size_t file) const;
  uint64_t bytes() const { return bytes_; }

 private:
  enum class State { kEmpty, kFilling, kComplete, kTooLarge };
  struct Entry {
    State state = State::kEmpty;
    Blocks blocks;
  };
  void Drop(Entry& entry);

  std::vector<Entry> entries_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
};

}  // namespace millrace::io
