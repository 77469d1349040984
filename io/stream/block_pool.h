// The blocks of records that are in memory. A record is handed around as a reference of sixteen
// bytes; a block goes back to the pool when its last record has been released.
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

// Where a record came from: a file and the offset of the record in its decompressed data.
struct RecordOrigin {
  const std::string* path = nullptr;
  uint64_t offset = 0;
};

struct PooledBlock {
  Block block;
  // Set where the records are cached rows; `block` is then empty. Shared with the cache.
  std::shared_ptr<const Block> cached;
  const std::string* path = nullptr;  // of the file it came from
  std::vector<RecordOrigin>
      origins;  // a record each, where the block was gathered from several others
  Framing framing = Framing::kTfRecord;
  uint32_t number = 0;
  uint32_t live = 0;     // records not yet released
  uint32_t total = 0;    // records at the beginning
  uint64_t payload = 0;  // their bytes; those of records that were left out are only held

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

  // Memory of blocks that are in use.
  uint64_t held_bytes() const { return held_bytes_; }
  // To be called once a block has been filled.
  void CountHeld(const PooledBlock& block) { held_bytes_ += block.block.bytes.size(); }

  RecordOrigin Origin(const RecordRef& ref) const;

 private:
  std::vector<std::unique_ptr<PooledBlock>> blocks_;
  std::vector<uint32_t> free_;
  uint64_t held_bytes_ = 0;
};

}  // namespace millrace::io
