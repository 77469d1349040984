// What threads record: events of some 64-bit words each, in chunks that only their thread appends
// to and that a writer of the trace may read meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/chunk_pool.h"
#include "profiler/trace.h"

namespace millrace::profiler::internal {

inline constexpr char kFlowOut[] = "flow out";  // an argument that becomes an arrow; by address
inline constexpr char kFlowIn[] = "flow in";

// An event is some words. Names are nearly always literals of the program, and values small; then
// a name is its distance from kFlowOut, and an argument one word:
//   kind | cat << 8 | args << 16 | name << 32, begin (or time), end (or the counter's value),
//   value | name << 32...
// Else kIsWide is set in the first word, and what follows is
//   name, begin, end, name, value...
inline constexpr uint64_t kIsWide = 1 << 24;
inline constexpr size_t kHeaderWords = 3;
enum class Kind : uint8_t { kSpan, kSpanInNs, kCounter };

struct Event {
  const char* name;
  Kind kind;
  Cat cat;
  int64_t begin;  // in ticks when it is recorded, in nanoseconds when it is visited
  int64_t end;    // likewise, or the counter's value
  const Arg* args;
  uint32_t num_args;
};

// A thread's, and after its end that of the next one of its name: threads may come and go in
// thousands. Outlives them, so that their events can still be written.
class ThreadBuffer {
 public:
  explicit ThreadBuffer(int id) : id_(id) {}

  // For the owning thread alone.
  void Append(const Event& event);
  void SetName(std::string_view name);

  // For any thread. Events of the trace that goes on or ended last, their times in nanoseconds.
  // `newest`: about so many of the last ones.
  void ForEach(const TickLine& line, size_t newest,
               const std::function<void(const Event&)>& visit) const;
  uint64_t dropped() const;
  std::string name() const;
  int id() const { return id_; }

 private:
  uint64_t* Room(size_t words);
  void StartAfresh(uint64_t trace);
  bool Grow();

  const int id_;
  std::atomic<uint64_t> trace_ = 0;  // that the content belongs to
  size_t events_ = 0;                // the owner's own
  Chunk* last_ = nullptr;            // the owner's own
  std::atomic<uint64_t> dropped_ = 0;
  mutable std::mutex mu_;       // of the following; taken once a chunk, never per event
  std::vector<Chunk*> chunks_;  // the pool's
  std::string name_;
};

// All buffers of the process, and what they have to agree on.
struct Registry {
  ChunkPool pool;
  std::mutex mu;                                       // of the following, up to the atomic ones
  std::vector<std::unique_ptr<ThreadBuffer>> buffers;  // never removed: threads may end first
  std::vector<ThreadBuffer*> ended;                    // those of threads that have ended
  std::string process;
  ClockPair start;
  // Read without the mutex.
  std::atomic<uint64_t> trace = 0;  // counts StartTracing
  std::atomic<size_t> max_events = 0;
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
