#include "io/stream/block_pool.h"

#include <algorithm>

#include "io/rows/cached_row.h"

namespace millrace::io {
namespace {
// A free block keeps at most this much memory: one giant record must not be paid for ever after.
constexpr size_t kMaxFreeBytes = 4 << 20;
}  // namespace

PooledBlock& BlockPool::Take() {
  if (free_.empty()) {
    blocks_.push_back(std::make_unique<PooledBlock>());
    blocks_.back()->number = static_cast<uint32_t>(blocks_.size() - 1);
    return *blocks_.back();
  }
  PooledBlock& block = *blocks_[free_.back()];
  free_.pop_back();
  return block;
}

void BlockPool::GiveBack(PooledBlock& block) {
  held_bytes_ -= std::min<uint64_t>(held_bytes_, block.block.bytes.size());
  block.block.bytes.clear();
  block.block.records.clear();
  block.origins.clear();
  block.cached.reset();
  block.live = block.total = 0;
  if (block.block.bytes.capacity() > kMaxFreeBytes) block.block.bytes = RawBuffer();
  free_.push_back(block.number);
}

RecordOrigin BlockPool::Origin(const RecordRef& ref) const {
  const PooledBlock& block = at(ref.block);
  if (block.cached) return {block.path, CachedRecordOffset({ref.data, ref.size})};
  const std::vector<RecordSpan>& records = block.block.records;
  const auto begin = static_cast<uint32_t>(ref.data - block.block.bytes.data());
  const auto found =
      std::lower_bound(records.begin(), records.end(), begin,
                       [](const RecordSpan& span, uint32_t at) { return span.begin < at; });
  const auto index = static_cast<size_t>(found - records.begin());
  if (!block.origins.empty()) return block.origins[index];
  return {block.path, block.block.offset(index, block.framing)};
}

}  // namespace millrace::io
