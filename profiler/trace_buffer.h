// What threads record: events of some 64-bit words each, in chunks that only their thread appends
// to and that a writer of the trace may read meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/chunk_pool.h"
#include "profiler/trace.h"

namespace millrace::profiler::internal {

inline constexpr char kFlowOut[] = "flow out";  // an argument that becomes an arrow; by address
inline constexpr char kFlowIn[] = "flow in";

// An event is some 32-bit words. Names are nearly always literals of the program, and numbers
// small:
//   name          its distance from kFlowOut
//   kind | cat << 4 | known << 8 | named << 12   (known: a bit for each of TraceArgs)
//   begin         from the beginning of the event before it; of a chunk's first, from its base
//   length        or a counter's value
//   value...      of each known argument
//   name, value...  of each named one
// Where one does not fit, kIsWide is set in the second word, the first is nothing, and what follows
// takes two words each: name, begin, end (or a counter's value), value..., name, value...
inline constexpr uint32_t kIsWide = 1 << 16;
inline constexpr size_t kKnown = 4;
inline constexpr size_t kMaxWords = 2 + 2 * (3 + kKnown + 2 * kMaxNamed);
enum class Kind : uint8_t { kSpan, kSpanInNs, kCounter };

// As it is visited.
struct Event {
  const char* name;
  Kind kind;
  Cat cat;
  int64_t begin;  // in nanoseconds
  int64_t end;    // likewise, or the counter's value
  std::array<Arg, kKnown + kMaxNamed> args;
  uint32_t num_args;
};

// A thread's, and after its end that of the next one of its name: threads may come and go in
// thousands. Outlives them, so that their events can still be written.
class ThreadBuffer {
 public:
  explicit ThreadBuffer(int id) : id_(id) {}

  // For the owning thread alone. Times in ticks, but for kSpanInNs.
  void Append(Kind kind, const char* name, Cat cat, int64_t begin, int64_t end,
              const TraceArgs& args, std::span<const Arg> named);
  void SetName(std::string_view name);

  // For any thread. Events of the trace that goes on or ended last, their times in nanoseconds.
  // `newest`: about so many of the last ones.
  void ForEach(const TickLine& line, size_t newest,
               const std::function<void(const Event&)>& visit) const;
  uint64_t dropped() const;
  std::string name() const;
  int id() const { return id_; }

 private:
  bool MakeRoom(int64_t begin);
  void StartAfresh(uint64_t trace);
  bool Grow(int64_t begin);

  const int id_;
  std::atomic<uint64_t> trace_ = 0;  // that the content belongs to
  // The owner's own.
  size_t events_ = 0;
  Chunk* last_ = nullptr;
  size_t used_ = kChunkWords;  // words of it; there is no room at first
  int64_t begin_ = 0;          // of the event before
  std::atomic<uint64_t> dropped_ = 0;
  mutable std::mutex mu_;       // of the following; taken once a chunk, never per event
  std::vector<Chunk*> chunks_;  // the pool's
  std::string name_;
};

// Read for every event.
extern std::atomic<uint64_t> current_trace;  // counts StartTracing
extern std::atomic<size_t> max_events;       // of a thread

// All buffers of the process, and what they have to agree on.
struct Registry {
  ChunkPool pool;
  std::mutex mu;                                       // of the following, up to the atomic ones
  std::vector<std::unique_ptr<ThreadBuffer>> buffers;  // never removed: threads may end first
  std::vector<ThreadBuffer*> ended;                    // those of threads that have ended
  std::string process;
  ClockPair start;
  // Read without the mutex.
  std::atomic<int64_t> bytes_left = 0;
  std::atomic<uint64_t> first_step = 0;
  std::atomic<uint64_t> last_step = 0;
  std::atomic<uint64_t> steps = 0;  // done so far, traced or not; counted with a window only
  std::atomic<int64_t> wall_start_ns = 0;
  std::atomic<int64_t> clock_offset_ns = 0;
};

Registry& TheRegistry();
// The calling thread's. `name`: that it is going to have, where it is known.
ThreadBuffer& MyBuffer(std::string_view name = {});

}  // namespace millrace::profiler::internal
