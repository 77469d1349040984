// SPDX-License-Identifier: Apache-2.0
#include "io/stream/shuffle_buffer.h"

#include <algorithm>
#include <cstring>

namespace millrace::io {
namespace {
constexpr uint64_t kSlackBytes = 32 << 20;
constexpr uint64_t kMaxHeldPerLive = 3;
constexpr uint64_t kSparse = 4;
constexpr uint64_t kGrowthBytes = 8 << 20;  // between two checks
constexpr uint64_t kMaxGatheredBytes = 1 << 30;

// Even an empty record takes a byte, so that each record has its own offset in the block.
uint64_t Room(const RecordRef& ref) { return ref.size > 0 ? ref.size : 1; }

// Less than a quarter of its bytes belong to live records.
bool IsSparse(const PooledBlock& block) {
  const double left = static_cast<double>(block.payload) * block.live / block.total;
  return left * static_cast<double>(kSparse) < static_cast<double>(block.block.bytes.size());
}
}  // namespace

void ShuffleBuffer::Compact(BlockPool& pool) {
  held_after_ = std::min(held_after_, pool.held_bytes());
  if (pool.held_bytes() < kSlackBytes + kMaxHeldPerLive * live_bytes_) return;
  if (pool.held_bytes() < held_after_ + kGrowthBytes) return;
  uint64_t bytes = 0;
  std::vector<RecordRef*> moving;
  for (RecordRef& ref : refs_) {
    const PooledBlock& block = pool.at(ref.block);
    if (block.cached) continue;  // the cache keeps it anyway
    if (!IsSparse(block) || bytes + Room(ref) > kMaxGatheredBytes) continue;
    moving.push_back(&ref);
    bytes += Room(ref);
  }
  if (!moving.empty()) Gather(pool, moving, bytes);
  held_after_ = pool.held_bytes();
}

void ShuffleBuffer::Gather(BlockPool& pool, const std::vector<RecordRef*>& moving, uint64_t bytes) {
  PooledBlock& target = pool.Take();
  target.block.bytes.Resize(bytes);
  uint64_t used = 0;
  for (RecordRef* ref : moving) {
    char* to = target.block.bytes.data() + used;
    std::memcpy(to, ref->data, ref->size);
    target.origins.push_back(pool.Origin(*ref));
    target.block.records.push_back({static_cast<uint32_t>(used), ref->size});
    used += Room(*ref);
    pool.Release(*ref);
    *ref = {to, ref->size, target.number};
  }
  target.live = target.total = static_cast<uint32_t>(moving.size());
  target.payload = bytes;
  pool.CountHeld(target);
}

}  // namespace millrace::io
