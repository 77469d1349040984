#include "io/queue/shuffle_buffer.h"

#include <cstring>

namespace millrace::io {
namespace {
constexpr uint64_t kSlackBytes = 32 << 20;
constexpr uint64_t kMaxHeldPerLive = 3;
constexpr uint32_t kSparse = 4;  // a block with fewer than a fourth of its records left
constexpr uint64_t kMaxGatheredBytes = 1 << 30;

// No two records of a block begin at the same byte, so that each can be told from its place.
uint64_t Room(const RecordRef& ref) { return ref.size > 0 ? ref.size : 1; }
}  // namespace

void ShuffleBuffer::Compact(BlockPool& pool) {
  if (pool.held_bytes() < kSlackBytes + kMaxHeldPerLive * live_bytes_) return;
  uint64_t bytes = 0;
  std::vector<RecordRef*> moving;
  for (RecordRef& ref : refs_) {
    const PooledBlock& block = pool.at(ref.block);
    if (block.cached) continue;  // the cache keeps it anyway
    if (block.live * kSparse >= block.total || bytes + Room(ref) > kMaxGatheredBytes) continue;
    moving.push_back(&ref);
    bytes += Room(ref);
  }
  if (!moving.empty()) Gather(pool, moving, bytes);
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
  pool.CountHeld(target);
}

}  // namespace millrace::io
