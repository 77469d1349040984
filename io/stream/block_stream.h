// The blocks of all files of all epochs as one sequence that depends on the seed alone.
//
// An epoch's files are put into an order drawn from (seed, epoch) and dealt to a fixed number of
// lanes, file i to lane i mod lanes. Each lane reads its files one after the other; the sequence
// takes one block of each lane in turn. Any number of threads may read lanes ahead, one thread a
// lane at a time: who is early or late changes nothing.
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
  size_t lanes = 8;         // files that are open at once; part of what the order depends on
  size_t blocks_ahead = 2;  // that a lane may hold (ends of epochs count too)
  uint64_t first_epoch = 0;
  uint64_t end_epoch = 1;  // reads the epochs [first_epoch, end_epoch)
  // The first ones are read whole; of every num_shards records of the others, the one numbered
  // shard is kept.
  size_t whole_files = 0;
  uint64_t shard = 0;
  uint64_t num_shards = 1;
  // Bytes of decoded rows to keep for later epochs; 0: none, and records come as they are in the
  // files. Otherwise all blocks hold cached rows.
  uint64_t cache_bytes = 0;
};

// All members except Read are called under the owner's mutex; Read without it, by one thread a
// lane.
class BlockStream {
 public:
  BlockStream(StreamOptions options, BlockPool& pool);

  // What reading a lane once gave.
  struct Reading {
    size_t lane = 0;
    PooledBlock* block = nullptr;
    std::shared_ptr<const Block> cached;  // from the cache: nothing to read
    bool got_block = false;
    bool file_ended = false;
    uint64_t bytes = 0;          // of the file, decompressed
    CorruptionStats corruption;  // of the file that ended
    Status error;
  };

  // A lane that has room and that nobody reads, or nothing. The caller must Read and then Finish
  // it.
  bool TakeLane(Reading& reading);
  // Reads the next block of the lane's current file. `to_cached_rows` is called on it if there is
  // to be a cache.
  void Read(Reading& reading, const std::function<void(Block&)>& to_cached_rows);
  // Puts the reading into its place in the sequence.
  void Finish(Reading& reading);

  enum class Next { kBlock, kWait, kEpochEnd, kEnd, kError };
  // The next element of the sequence: a block (which the caller owns, its records counted as live),
  // the end of an epoch, the end of all, an error, or not there yet.
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
    std::unique_ptr<BlockReader> reader;
    std::vector<size_t> files;  // of read_epoch, those still to be opened, last first
    uint64_t read_epoch = 0;
    uint64_t ordinal = 0;                      // of the next record in the file
    bool fills_cache = false;                  // the file's blocks go to the cache as well
    const RowCache::Blocks* cached = nullptr;  // the file's blocks, if they are in the cache
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
