// SPDX-License-Identifier: Apache-2.0
#include "io/stream/block_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/base/random.h"
#include "io/table/table_reader.h"

namespace millrace::io {

BlockStream::BlockStream(StreamOptions options, BlockPool& pool)
    : options_(std::move(options)),
      pool_(pool),
      epoch_(options_.first_epoch),
      cache_(options_.files.size(), options_.cache_bytes) {
  lanes_.resize(
      std::clamp<size_t>(options_.interleave, 1, std::max<size_t>(options_.files.size(), 1)));
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].read_epoch = options_.first_epoch;
    StartLaneEpoch(lane);
  }
}

// A Fisher-Yates shuffle.
std::vector<size_t> BlockStream::FileOrder(uint64_t epoch) const {
  std::vector<size_t> order(options_.files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!options_.shuffle_files) return order;
  Random random(DeriveSeed(options_.seed, kFileOrderStream, epoch));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

void BlockStream::StartLaneEpoch(size_t lane) {
  Lane& l = lanes_[lane];
  if (l.read_epoch >= options_.end_epoch) {
    l.done = true;
    return;
  }
  const std::vector<size_t> order = FileOrder(l.read_epoch);
  l.files.clear();
  for (size_t i = lane; i < order.size(); i += lanes_.size()) l.files.push_back(order[i]);
  std::reverse(l.files.begin(), l.files.end());
  StartFile(l);
}

// Reads the lane's next file from the cache if possible; fills the cache with it unless another
// lane does.
void BlockStream::StartFile(Lane& lane) {
  lane.cached = cache_.Find(lane.files.back());
  lane.next_cached = 0;
  lane.fills_cache = !lane.cached && cache_.Begin(lane.files.back());
}

bool BlockStream::TakeLane(Reading& reading) {
  // Prefer the lane whose block is needed next.
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const size_t lane = (turn_ + i) % lanes_.size();
    Lane& l = lanes_[lane];
    if (l.busy || l.done || l.items.size() >= options_.prefetch_blocks) continue;
    l.busy = true;
    reading = {};
    reading.lane = lane;
    reading.block = &pool_.Take();
    if (l.cached && l.next_cached < l.cached->size()) reading.cached = (*l.cached)[l.next_cached++];
    reading.file_ended = l.cached && !reading.cached;
    return true;
  }
  return false;
}

void BlockStream::Read(Reading& reading, const std::function<void(Block&)>& to_cached_rows) {
  Lane& lane = lanes_[reading.lane];
  if (lane.cached) return;
  if (!lane.reader) {
    auto opened = OpenBlocks(options_.files[lane.files.back()], options_.blocks);
    reading.error = opened.status();
    if (!opened.ok()) return;
    lane.reader = std::move(*opened);
    lane.ordinal = 0;
  }
  PooledBlock& block = *reading.block;
  const Result<bool> more = lane.reader->Next(block.block);
  reading.error = more.status();
  reading.got_block = more.ok() && *more;
  reading.file_ended = more.ok() && !*more;
  if (reading.file_ended) reading.corruption = lane.reader->corruption();
  if (!reading.got_block) return;
  block.path = &options_.files[lane.files.back()];
  block.framing = options_.blocks.framing;
  if (block.framing == Framing::kLines) DropBlankLines(block.block);
  if (block.framing == Framing::kCsv) DropEmptyLines(block.block);
  KeepShard(lane, block.block);
  reading.bytes = block.block.bytes.size();
  if (options_.cache_bytes > 0) to_cached_rows(block.block);
}

void BlockStream::DropBlankLines(Block& block) {
  std::erase_if(block.records, [&](const RecordSpan& span) {
    const std::string_view line(block.bytes.data() + span.begin, span.size);
    const size_t first = line.find_first_not_of(" \t");
    return first == std::string_view::npos || line[first] == '#';
  });
}

void BlockStream::DropEmptyLines(Block& block) {
  std::erase_if(block.records, [](const RecordSpan& span) { return span.size == 0; });
}

void BlockStream::KeepShard(Lane& lane, Block& block) const {
  if (options_.num_shards <= 1 || lane.files.back() < options_.whole_files) return;
  std::erase_if(block.records, [&](const RecordSpan&) {
    return lane.ordinal++ % options_.num_shards != options_.shard;
  });
}

void BlockStream::Finish(Reading& reading) {
  Lane& lane = lanes_[reading.lane];
  lane.busy = false;
  bytes_read_ += reading.bytes;
  PooledBlock& block = *reading.block;
  if (reading.cached) {
    block.cached = std::move(reading.cached);
    block.path = &options_.files[lane.files.back()];
  } else if (reading.got_block && options_.cache_bytes > 0) {
    KeepBlock(lane, block);
  }
  if (!block.content().records.empty()) {
    block.live = block.total = static_cast<uint32_t>(block.content().records.size());
    block.payload = 0;
    for (const RecordSpan& span : block.content().records) block.payload += span.size;
    pool_.CountHeld(block);
    lane.items.push_back({&block, {}});
    return;
  }
  pool_.GiveBack(block);
  if (!reading.error.ok()) {
    if (lane.fills_cache) cache_.Abandon(lane.files.back());
    lane.items.push_back({nullptr, reading.error});
    lane.done = true;
    return;
  }
  if (!reading.file_ended) return;
  corruption_.Merge(reading.corruption);
  EndFile(reading.lane);
}

// Makes a block of cached rows, and adds it to the cache if there is room.
void BlockStream::KeepBlock(Lane& lane, PooledBlock& block) {
  block.cached = std::make_shared<const Block>(std::move(block.block));
  block.block = Block();
  if (lane.fills_cache) lane.fills_cache = cache_.Add(lane.files.back(), block.cached);
}

void BlockStream::EndFile(size_t lane_number) {
  Lane& lane = lanes_[lane_number];
  if (lane.fills_cache) cache_.End(lane.files.back());
  lane.reader.reset();
  lane.files.pop_back();
  if (!lane.files.empty()) return StartFile(lane);
  lane.items.push_back({nullptr, {}});
  ++lane.read_epoch;
  StartLaneEpoch(lane_number);
}

// A lane that is blocked (on a FIFO, for example) must not hide the error of another lane.
bool BlockStream::FindError() {
  for (const Lane& lane : lanes_) {
    if (lane.items.empty() || lane.items.front().error.ok()) continue;
    error_ = lane.items.front().error;
    return true;
  }
  return false;
}

BlockStream::Next BlockStream::Take(PooledBlock*& block) {
  if (!error_.ok()) return Next::kError;
  if (epoch_ >= options_.end_epoch) return Next::kEnd;
  for (size_t finished = 0; finished < lanes_.size();) {
    Lane& lane = lanes_[turn_];
    if (lane.epoch_taken) {
      ++finished;
      turn_ = (turn_ + 1) % lanes_.size();
      continue;
    }
    finished = 0;
    if (lane.items.empty()) return FindError() ? Next::kError : Next::kWait;
    const Item item = lane.items.front();
    lane.items.pop_front();
    error_ = item.error;
    if (!error_.ok()) return Next::kError;
    lane.epoch_taken = item.block == nullptr;
    if (lane.epoch_taken) continue;
    turn_ = (turn_ + 1) % lanes_.size();
    block = item.block;
    return Next::kBlock;
  }
  for (Lane& lane : lanes_) lane.epoch_taken = false;
  turn_ = 0;
  ++epoch_;
  return Next::kEpochEnd;
}

}  // namespace millrace::io
