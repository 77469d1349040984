// SPDX-License-Identifier: Apache-2.0
// The buffers that threads record events in: chunks that only their thread appends to and that a
// writer of the trace may read at the same time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/trace.h"

namespace millrace::profiler::internal {

// Memory for events comes in chunks of 64 KB cut from slabs of 2 MB. A chunk's pages are mapped
// when it is taken. It does not use huge pages: on virtual machines whose host reclaims free
// memory, the first write to a huge page took 4.4 ms, compared to 0.6 ms for the same memory in
// small pages.
inline constexpr size_t kChunkBytes = 64 << 10;
inline constexpr size_t kChunkWords = (kChunkBytes - 2 * sizeof(int64_t)) / sizeof(uint32_t);

struct Chunk {
  std::atomic<size_t> used = 0;  // words before it are complete
  int64_t base = 0;              // the first event's time is relative to it
  std::array<uint32_t, kChunkWords> words;

  Chunk() {}  // leaves `words` uninitialized
};
static_assert(sizeof(Chunk) == kChunkBytes);

// Thread-safe. A chunk is valid until it is given back, or as long as the pool exists; slabs are
// kept for the next trace.
class ChunkPool {
 public:
  // An empty chunk; null if there is no memory.
  Chunk* Take();
  void GiveBack(const std::vector<Chunk*>& chunks);

 private:
  struct Free {
    void operator()(std::byte* slab) const { std::free(slab); }
  };
  bool AddSlab();  // under mu_

  std::mutex mu_;  // guards the following
  std::vector<std::unique_ptr<std::byte, Free>> slabs_;
  std::vector<Chunk*> free_;
};

// Names of arguments that become flow arrows; compared by address.
inline constexpr char kFlowOut[] = "flow out";
inline constexpr char kFlowIn[] = "flow in";

// An event is a sequence of 32-bit words. Most names are literals of the program, and most numbers
// are small:
//   name          its distance from kFlowOut
//   kind | cat << 4 | known << 8 | named << 12   (known: one bit per member of TraceArgs)
//   begin         relative to the begin of the previous event, or to the chunk's base
//   length        or a counter's value
//   value...      of each known argument
//   name, value...  of each named argument
// If a number does not fit, kIsWide is set in the second word, the first word is unused, and the
// other items take two words each: name, begin, end (or a counter's value), value..., name,
// value...
inline constexpr uint32_t kIsWide = 1 << 16;
inline constexpr size_t kKnown = 4;
inline constexpr size_t kMaxWords = 2 + 2 * (3 + kKnown + 2 * kMaxNamed);
enum class Kind : uint8_t { kSpan, kSpanInNs, kCounter };

// A decoded event.
struct Event {
  const char* name;
  Kind kind;
  Cat cat;
  int64_t begin;  // in nanoseconds
  int64_t end;    // in nanoseconds, or the counter's value
  std::array<Arg, kKnown + kMaxNamed> args;
  uint32_t num_args;
};

// The buffer of one thread. When the thread ends, the next thread of the same name takes the buffer
// over: a process may start thousands of threads. Buffers outlive threads, so that their events can
// still be written.
class ThreadBuffer {
 public:
  explicit ThreadBuffer(int id) : id_(id) {}

  // Only for the owning thread. Times are in ticks, except for kSpanInNs.
  void Append(Kind kind, const char* name, Cat cat, int64_t begin, int64_t end,
              const TraceArgs& args, std::span<const Arg> named);
  void SetName(std::string_view name);

  // For any thread. Visits the events of the current or last trace, with times in nanoseconds:
  // about the `newest` last ones.
  void ForEach(const TickLine& line, size_t newest,
               const std::function<void(const Event&)>& visit) const;
  uint64_t dropped() const;
  std::string name() const;
  int id() const { return id_; }

 private:
  bool MakeRoom(int64_t begin);
  void Restart(uint64_t trace);
  bool Grow(int64_t begin);

  const int id_;
  std::atomic<uint64_t> trace_ = 0;  // the trace of the content
  // Only for the owning thread:
  size_t events_ = 0;
  Chunk* last_ = nullptr;
  size_t used_ = kChunkWords;  // words of last_; initially full
  int64_t begin_ = 0;          // of the previous event
  std::atomic<uint64_t> dropped_ = 0;
  mutable std::mutex mu_;       // guards the following; locked once per chunk, not per event
  std::vector<Chunk*> chunks_;  // owned by the pool
  std::string name_;
};

// Read for every event.
extern std::atomic<uint64_t> current_trace;  // counts StartTracing
extern std::atomic<size_t> max_events;       // of a thread

// All buffers of the process and their shared state.
struct Registry {
  ChunkPool pool;
  std::mutex mu;                                       // guards the members before the atomics
  std::vector<std::unique_ptr<ThreadBuffer>> buffers;  // never removed: threads may end first
  std::vector<ThreadBuffer*> ended;                    // of threads that have ended
  std::string process;
  ClockPair start;
  // Not guarded by the mutex.
  std::atomic<int64_t> bytes_left = 0;
  std::atomic<uint64_t> first_step = 0;
  std::atomic<uint64_t> last_step = 0;
  std::atomic<uint64_t> steps = 0;  // done so far; counted only with a window of steps
  std::atomic<int64_t> wall_start_ns = 0;
  std::atomic<int64_t> clock_offset_ns = 0;
};

Registry& TheRegistry();
// The calling thread's buffer. `name`: the thread's future name, if it is known.
ThreadBuffer& MyBuffer(std::string_view name = {});

}  // namespace millrace::profiler::internal
