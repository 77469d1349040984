// SPDX-License-Identifier: Apache-2.0
// The blocks of all files of all epochs as one sequence that depends on the options alone.
//
// The files of an epoch are ordered at random by (seed, epoch) and interleaved: file i goes to lane
// i mod `interleave`, each lane reads its files in order, and the sequence takes one block of each
// lane in turn. Any number of threads may prefetch, one thread per lane at a time; their timing
// does not affect the sequence.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/record/block_reader.h"
#include "io/stream/block_pool.h"
#include "io/stream/row_cache.h"

namespace millrace::io {

struct StreamOptions {
  std::vector<std::string> files;
  BlockOptions blocks;
  uint64_t seed = 1;
  bool shuffle_files = true;
  size_t interleave = 8;       // lanes, which is also the number of open files; affects the order
  size_t prefetch_blocks = 2;  // that a lane may hold (ends of epochs count too)
  uint64_t first_epoch = 0;
  uint64_t end_epoch = 1;  // reads the epochs [first_epoch, end_epoch)
  // The first `whole_files` files are read whole. Of every num_shards records of the others, record
  // number `shard` is kept.
  size_t whole_files = 0;
  uint64_t shard = 0;
  uint64_t num_shards = 1;
  // Bytes of decoded rows to cache for later epochs. If it is 0, blocks hold the records of the
  // files; otherwise all blocks hold cached rows.
  uint64_t cache_bytes = 0;
};

// Numbers of the random streams that derive from the seed: no two purposes share one.
constexpr uint64_t kFileOrderStream = 1;
constexpr uint64_t kShuffleStream = 2;

// Call all members except Read under the owner's mutex, and Read without it, by one thread per
// lane.
class BlockStream {
 public:
  BlockStream(StreamOptions options, BlockPool& pool);

  // The result of one read of a lane.
  struct Reading {
    size_t lane = 0;
    PooledBlock* block = nullptr;
    std::shared_ptr<const Block> cached;  // from the cache: no read is needed
    bool got_block = false;
    bool file_ended = false;
    uint64_t bytes = 0;          // of the file, decompressed
    CorruptionStats corruption;  // of the file that ended
    Status error;
  };

  // Picks a lane that has room and no reader; false if there is none. The caller must Read and then
  // Finish it.
  bool TakeLane(Reading& reading);
  // Reads the next block of the lane's current file. With a cache, `to_cached_rows` is called on
  // it.
  void Read(Reading& reading, const std::function<void(Block&)>& to_cached_rows);
  // Adds the result to the sequence.
  void Finish(Reading& reading);

  enum class Next { kBlock, kWait, kEpochEnd, kEnd, kError };
  // The next element of the sequence: a block (which the caller owns; its records count as live),
  // the end of an epoch, the end of the data, an error, or kWait if it is not read yet.
  Next Take(PooledBlock*& block);

  const Status& error() const { return error_; }
  const CorruptionStats& corruption() const { return corruption_; }
  uint64_t epoch() const { return epoch_; }  // of the next element
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_cached() const { return cache_.bytes(); }

 private:
  struct Item {
    PooledBlock* block = nullptr;  // null: the lane's end of the epoch, or an error
    Status error;
  };
  struct Lane {
    std::deque<Item> items;
    std::unique_ptr<BlockSource> reader;
    std::vector<size_t> files;  // of read_epoch that are not finished, in reverse order
    uint64_t read_epoch = 0;
    uint64_t ordinal = 0;                      // of the next record in the file
    bool fills_cache = false;                  // the file's blocks are added to the cache
    const RowCache::Blocks* cached = nullptr;  // the file's blocks in the cache, if it has them
    size_t next_cached = 0;
    bool busy = false;
    bool done = false;         // nothing more to read
    bool epoch_taken = false;  // its part of epoch_ has been taken
  };

  std::vector<size_t> FileOrder(uint64_t epoch) const;
  void StartLaneEpoch(size_t lane);
  void StartFile(Lane& lane);
  bool FindError();
  void KeepBlock(Lane& lane, PooledBlock& block);
  void EndFile(size_t lane);
  void KeepShard(Lane& lane, Block& block) const;
  static void DropBlankLines(Block& block);
  static void DropEmptyLines(Block& block);

  StreamOptions options_;
  BlockPool& pool_;
  std::vector<Lane> lanes_;
  size_t turn_ = 0;
  uint64_t epoch_;
  Status error_;
  CorruptionStats corruption_;
  uint64_t bytes_read_ = 0;
  RowCache cache_;
};

}  // namespace millrace::io
