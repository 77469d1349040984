#include "io/queue/block_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/base/random.h"
#include "io/queue/streams.h"

namespace millrace::io {

BlockStream::BlockStream(StreamOptions options, BlockPool& pool)
    : options_(std::move(options)), pool_(pool), epoch_(options_.first_epoch) {
  lanes_.resize(std::clamp<size_t>(options_.lanes, 1, std::max<size_t>(options_.files.size(), 1)));
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].read_epoch = options_.first_epoch;
    StartLaneEpoch(lane);
  }
}

// Fisher and Yates, with our own numbers.
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
}

bool BlockStream::TakeLane(Reading& reading) {
  // The lane whose turn comes next is the one that is waited for.
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const size_t lane = (turn_ + i) % lanes_.size();
    Lane& l = lanes_[lane];
    if (l.busy || l.done || l.items.size() >= options_.blocks_ahead) continue;
    l.busy = true;
    reading = {};
    reading.lane = lane;
    reading.block = &pool_.Take();
    return true;
  }
  return false;
}

void BlockStream::Read(Reading& reading) {
  Lane& lane = lanes_[reading.lane];
  if (!lane.reader) {
    auto opened = BlockReader::Open(options_.files[lane.files.back()], options_.blocks);
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
  if (reading.file_ended) reading.loss = lane.reader->loss();
  if (!reading.got_block) return;
  block.path = &options_.files[lane.files.back()];
  block.framing = options_.blocks.framing;
  if (block.framing == Framing::kLines) DropBlankLines(block.block);
  KeepShard(lane, block.block);
}

void BlockStream::DropBlankLines(Block& block) {
  std::erase_if(block.records, [&](const RecordSpan& span) {
    const std::string_view line(block.bytes.data() + span.begin, span.size);
    const size_t first = line.find_first_not_of(" \t");
    return first == std::string_view::npos || line[first] == '#';
  });
}

void BlockStream::KeepShard(Lane& lane, Block& block) const {
  if (options_.num_shards <= 1) return;
  std::erase_if(block.records, [&](const RecordSpan&) {
    return lane.ordinal++ % options_.num_shards != options_.shard;
  });
}

void BlockStream::Finish(Reading& reading) {
  Lane& lane = lanes_[reading.lane];
  lane.busy = false;
  bytes_read_ += reading.block->block.bytes.size();
  if (reading.got_block && !reading.block->block.records.empty()) {
    reading.block->live = reading.block->total =
        static_cast<uint32_t>(reading.block->block.records.size());
    pool_.CountHeld(*reading.block);
    lane.items.push_back({reading.block, {}});
    return;
  }
  pool_.GiveBack(*reading.block);
  if (!reading.error.ok()) {
    lane.items.push_back({nullptr, reading.error});
    lane.done = true;
    return;
  }
  if (!reading.file_ended) return;
  loss_.Merge(reading.loss);
  lane.reader.reset();
  lane.files.pop_back();
  if (!lane.files.empty()) return;
  lane.items.push_back({nullptr, {}});
  ++lane.read_epoch;
  StartLaneEpoch(reading.lane);
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
    if (lane.items.empty()) return Next::kWait;
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
