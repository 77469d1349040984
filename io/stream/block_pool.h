// SPDX-License-Identifier: Apache-2.0
// The blocks of records in memory. A record is passed around as a reference of 16 bytes; a block
// returns to the pool when its last record is released.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/record/block_reader.h"

namespace millrace::io {

struct RecordRef {
  const char* data;
  uint32_t size;
  uint32_t block;  // its number in the pool
};

// The file of a record and its offset in the decompressed data (of a row of a table: its number).
struct RecordOrigin {
  const std::string* path = nullptr;
  uint64_t offset = 0;
};

struct PooledBlock {
  Block block;
  // Set if the records are cached rows; `block` is then empty. Shared with the cache.
  std::shared_ptr<const Block> cached;
  const std::string* path = nullptr;  // of the file it came from
  // One per record, if the block was gathered from several others.
  std::vector<RecordOrigin> origins;
  Framing framing = Framing::kTfRecord;
  uint32_t number = 0;
  uint32_t live = 0;     // records not yet released
  uint32_t total = 0;    // records when the block was filled
  uint64_t payload = 0;  // bytes of these records, without those of records that were left out

  const Block& content() const { return cached ? *cached : block; }
};

// Not thread-safe: the owner's mutex guards it.
class BlockPool {
 public:
  PooledBlock& Take();
  void GiveBack(PooledBlock& block);
  void Release(const RecordRef& ref) {
    PooledBlock& block = *blocks_[ref.block];
    if (--block.live == 0) GiveBack(block);
  }
  const PooledBlock& at(uint32_t number) const { return *blocks_[number]; }
  PooledBlock& at(uint32_t number) { return *blocks_[number]; }

  // Bytes of the blocks in use.
  uint64_t held_bytes() const { return held_bytes_; }
  // Call it once per filled block.
  void CountHeld(const PooledBlock& block) { held_bytes_ += block.block.bytes.size(); }

  RecordOrigin Origin(const RecordRef& ref) const;

 private:
  std::vector<std::unique_ptr<PooledBlock>> blocks_;
  std::vector<uint32_t> free_;
  uint64_t held_bytes_ = 0;
};

// "file: offset n: " for a message; "file:12: offset n: " for a line of text; "file: row n: " (from
// 1) for a table. To count lines it reads the file up to the record, except for pipes: do not call
// it under a lock.
std::string LocationText(const RecordOrigin& origin, Framing framing);

}  // namespace millrace::io
