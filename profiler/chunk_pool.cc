#include "profiler/chunk_pool.h"

#include <sys/mman.h>

namespace millrace::profiler::internal {
namespace {

constexpr size_t kSlabBytes = 2 << 20;

}  // namespace

Chunk* ChunkPool::Take() {
  std::lock_guard lock(mu_);
  if (free_.empty() && !AddSlab()) return nullptr;
  Chunk* const chunk = free_.back();
  free_.pop_back();
  return std::construct_at(chunk);
}

void ChunkPool::GiveBack(const std::vector<Chunk*>& chunks) {
  std::lock_guard lock(mu_);
  free_.insert(free_.end(), chunks.begin(), chunks.end());
}

void ChunkPool::WarmUp() {
  std::lock_guard lock(mu_);
  if (!slabs_.empty() || !AddSlab()) return;
  // Only saves time: a system that does not know it touches the pages later.
  ::madvise(slabs_.front().get(), kSlabBytes, MADV_POPULATE_WRITE);
}

bool ChunkPool::AddSlab() {
  auto* const slab = static_cast<std::byte*>(std::aligned_alloc(kSlabBytes, kSlabBytes));
  if (!slab) return false;
  slabs_.emplace_back(slab);
  ::madvise(slab, kSlabBytes, MADV_HUGEPAGE);  // a wish
  for (size_t at = kSlabBytes; at > 0; at -= kChunkBytes) {
    free_.push_back(reinterpret_cast<Chunk*>(slab + at - kChunkBytes));
  }
  return true;
}

}  // namespace millrace::profiler::internal
