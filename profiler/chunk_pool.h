// Memory for recorded events, in chunks of 64 KB cut from slabs of 2 MB.
//
// A chunk's pages are fetched when it is taken. Huge pages are not asked for: on virtual machines
// whose host takes free memory back, the first touch of one took 4.4 ms, that of as many small
// pages 0.6 ms.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace millrace::profiler::internal {

inline constexpr size_t kChunkBytes = 64 << 10;
inline constexpr size_t kChunkWords = (kChunkBytes - 2 * sizeof(int64_t)) / sizeof(uint32_t);

struct Chunk {
  std::atomic<size_t> used = 0;  // words before it are complete
  int64_t base = 0;              // the first event's time is told from there
  std::array<uint32_t, kChunkWords> words;

  Chunk() {}  // `words` are left as they are
};
static_assert(sizeof(Chunk) == kChunkBytes);

// Thread-safe. What was taken stays valid until it is given back, or as long as the pool; slabs are
// kept for the next trace.
class ChunkPool {
 public:
  // Empty. Null without memory.
  Chunk* Take();
  void GiveBack(const std::vector<Chunk*>& chunks);

 private:
  struct Free {
    void operator()(std::byte* slab) const { std::free(slab); }
  };
  bool AddSlab();  // under mu_

  std::mutex mu_;  // of the following
  std::vector<std::unique_ptr<std::byte, Free>> slabs_;
  std::vector<Chunk*> free_;
};

}  // namespace millrace::profiler::internal
