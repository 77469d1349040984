// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace millrace::profiler::internal {
namespace {

constexpr size_t kSlabBytes = 2 << 20;
constexpr size_t kPageBytes = 4096;

// Maps all pages with one call, which takes less than half the time of separate page faults.
// Kernels without it map pages at the first write.
void Populate(Chunk* chunk) { ::madvise(chunk, kChunkBytes, MADV_POPULATE_WRITE); }

}  // namespace

Chunk* ChunkPool::Take() {
  Chunk* chunk = nullptr;
  {
    std::lock_guard lock(mu_);
    if (free_.empty() && !AddSlab()) return nullptr;
    chunk = free_.back();
    free_.pop_back();
  }
  Populate(chunk);
  return std::construct_at(chunk);
}

void ChunkPool::GiveBack(const std::vector<Chunk*>& chunks) {
  std::lock_guard lock(mu_);
  free_.insert(free_.end(), chunks.begin(), chunks.end());
}

bool ChunkPool::AddSlab() {
  auto* const slab = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kSlabBytes));
  if (!slab) return false;
  slabs_.emplace_back(slab);
  for (size_t at = kSlabBytes; at > 0; at -= kChunkBytes) {
    free_.push_back(reinterpret_cast<Chunk*>(slab + at - kChunkBytes));
  }
  return true;
}

std::atomic<uint64_t> current_trace{0};
std::atomic<size_t> max_events{0};

namespace {

int64_t DistanceOf(const char* name) {
  return std::bit_cast<intptr_t>(name) - std::bit_cast<intptr_t>(&kFlowOut[0]);
}

const char* NameAt(int64_t distance) {
  return std::bit_cast<const char*>(std::bit_cast<intptr_t>(&kFlowOut[0]) + distance);
}

bool IsInt32(int64_t number) { return number == static_cast<int32_t>(number); }
bool IsUint32(int64_t number) { return number == static_cast<uint32_t>(number); }

uint32_t* PutWide(uint32_t* words, int64_t number) {
  std::memcpy(words, &number, sizeof number);
  return words + 2;
}

int64_t TakeWide(const uint32_t*& words) {
  int64_t number;
  std::memcpy(&number, words, sizeof number);
  words += 2;
  return number;
}

std::array<int64_t, kKnown> KnownOf(const TraceArgs& args) {
  return {args.rows, args.nnz, args.bytes, args.keys};
}
constexpr std::array<const char*, kKnown> kKnownNames = {"rows", "nnz", "bytes", "keys"};

bool FitNarrow(std::span<const Arg> named) {
  for (const Arg& arg : named) {
    if (!IsInt32(DistanceOf(arg.name)) || !IsUint32(arg.value)) return false;
  }
  return true;
}

uint32_t HeadOf(Kind kind, Cat cat, uint32_t known, size_t named) {
  return static_cast<uint32_t>(kind) | static_cast<uint32_t>(cat) << 4 | known << 8 |
         static_cast<uint32_t>(named) << 12;
}

// The end of the written words; the numbers may not fit.
__attribute__((noinline)) uint32_t* PutWideEvent(uint32_t* words, uint32_t head, const char* name,
                                                 int64_t begin, int64_t end, const TraceArgs& args,
                                                 std::span<const Arg> named) {
  words[1] = head | kIsWide;
  words = PutWide(words + 2, std::bit_cast<intptr_t>(name));
  words = PutWide(PutWide(words, begin), end);
  for (const int64_t value : KnownOf(args)) {
    if (value >= 0) words = PutWide(words, value);
  }
  for (const Arg& arg : named) {
    words = PutWide(words, std::bit_cast<intptr_t>(arg.name));
    words = PutWide(words, arg.value);
  }
  return words;
}

}  // namespace

void ThreadBuffer::Append(Kind kind, const char* name, Cat cat, int64_t begin, int64_t end,
                          const TraceArgs& args, std::span<const Arg> named) {
  if (!MakeRoom(begin)) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  uint32_t* const words = last_->words.data() + used_;
  uint32_t* at = words + 4;
  uint32_t known = 0;
  int64_t largest = 0;
  const auto put = [&](int64_t value, uint32_t bit) {  // an omitted value is overwritten
    *at = static_cast<uint32_t>(value);
    at += value >= 0 ? 1 : 0;
    known |= value >= 0 ? bit : 0;
    largest = std::max(largest, value);
  };
  put(args.rows, 1);
  put(args.nnz, 2);
  put(args.bytes, 4);
  put(args.keys, 8);
  const uint32_t head = HeadOf(kind, cat, known, named.size());
  const int64_t distance = DistanceOf(name), since = begin - begin_;
  const int64_t length = kind == Kind::kCounter ? end : end - begin;
  const bool fits = IsInt32(distance) && IsInt32(since) && IsUint32(length) && IsUint32(largest) &&
                    kind != Kind::kSpanInNs;
  if (fits && FitNarrow(named)) {
    words[0] = static_cast<uint32_t>(distance);
    words[1] = head;
    words[2] = static_cast<uint32_t>(since);
    words[3] = static_cast<uint32_t>(length);
    for (const Arg& arg : named) {
      *at++ = static_cast<uint32_t>(DistanceOf(arg.name));
      *at++ = static_cast<uint32_t>(arg.value);
    }
  } else {
    at = PutWideEvent(words, head, name, begin, end, args, named);
  }
  if (kind != Kind::kSpanInNs) begin_ = begin;
  ++events_;
  used_ += static_cast<size_t>(at - words);
  last_->used.store(used_, std::memory_order_release);
}

// Makes room for the largest possible event. False if the limits are reached.
bool ThreadBuffer::MakeRoom(int64_t begin) {
  const uint64_t trace = current_trace.load(std::memory_order_relaxed);
  if (trace != trace_.load(std::memory_order_relaxed)) Restart(trace);
  if (events_ >= max_events.load(std::memory_order_relaxed)) return false;
  return used_ + kMaxWords <= kChunkWords || Grow(begin);
}

void ThreadBuffer::Restart(uint64_t trace) {
  std::lock_guard lock(mu_);
  TheRegistry().pool.GiveBack(chunks_);
  chunks_.clear();
  last_ = nullptr;
  used_ = kChunkWords;
  events_ = 0;
  dropped_ = 0;
  trace_ = trace;
}

bool ThreadBuffer::Grow(int64_t begin) {
  constexpr auto kBytes = static_cast<int64_t>(kChunkBytes);
  Registry& registry = TheRegistry();
  if (registry.bytes_left.load(std::memory_order_relaxed) < kBytes) return false;
  if (registry.bytes_left.fetch_sub(kBytes) < kBytes) {
    registry.bytes_left += kBytes;
    return false;
  }
  Chunk* const chunk = registry.pool.Take();
  if (!chunk) return false;
  chunk->base = begin_ = begin;
  std::lock_guard lock(mu_);
  chunks_.push_back(chunk);
  last_ = chunk;
  used_ = 0;
  return true;
}

void ThreadBuffer::SetName(std::string_view name) {
  std::lock_guard lock(mu_);
  name_ = name;
}

namespace {

// Visits the events of one chunk in order. Times are in ticks, except for kSpanInNs.
class EventReader {
 public:
  explicit EventReader(const Chunk& chunk)
      : words_(chunk.words.data()),
        end_(words_ + chunk.used.load(std::memory_order_acquire)),
        begin_(chunk.base) {}

  bool Next(Event& event) {
    if (words_ == end_) return false;
    const auto name = static_cast<int32_t>(words_[0]);
    const uint32_t head = words_[1];
    words_ += 2;
    event.kind = static_cast<Kind>(head & 0xf);
    event.cat = static_cast<Cat>(head >> 4 & 0xf);
    wide_ = (head & kIsWide) != 0;
    event.name = wide_ ? std::bit_cast<const char*>(TakeWide(words_)) : NameAt(name);
    if (wide_) {
      event.begin = TakeWide(words_);
      event.end = TakeWide(words_);
    } else {
      event.begin = begin_ + static_cast<int32_t>(*words_++);
      event.end = *words_++ + (event.kind == Kind::kCounter ? 0 : event.begin);
    }
    if (event.kind != Kind::kSpanInNs) begin_ = event.begin;
    event.num_args = 0;
    for (size_t i = 0; i < kKnown; ++i) {
      if (head >> (8 + i) & 1) event.args[event.num_args++] = {kKnownNames[i], TakeValue()};
    }
    for (uint32_t i = 0; i < (head >> 12 & 0xf); ++i) {
      const char* arg = TakeName();
      event.args[event.num_args++] = {arg, TakeValue()};
    }
    return true;
  }

 private:
  int64_t TakeValue() { return wide_ ? TakeWide(words_) : int64_t{*words_++}; }
  const char* TakeName() {
    return wide_ ? std::bit_cast<const char*>(TakeWide(words_))
                 : NameAt(static_cast<int32_t>(*words_++));
  }

  const uint32_t* words_;
  const uint32_t* end_;
  int64_t begin_;
  bool wide_ = false;
};

}  // namespace

void ThreadBuffer::ForEach(const TickLine& line, size_t newest,
                           const std::function<void(const Event&)>& visit) const {
  std::lock_guard lock(mu_);
  if (trace_ != current_trace) return;
  constexpr size_t kEventsPerChunk = kChunkWords / (4 + 2);  // with two arguments
  const size_t wanted = newest / kEventsPerChunk + 1;
  const size_t first = chunks_.size() > wanted ? chunks_.size() - wanted : 0;
  for (size_t c = first; c < chunks_.size(); ++c) {
    EventReader reader(*chunks_[c]);
    for (Event event; reader.Next(event);) {
      if (event.kind != Kind::kSpanInNs) event.begin = line.ToNs(event.begin);
      if (event.kind == Kind::kSpan) event.end = line.ToNs(event.end);
      visit(event);
    }
  }
}

uint64_t ThreadBuffer::dropped() const { return trace_ == current_trace ? dropped_.load() : 0; }

std::string ThreadBuffer::name() const {
  std::lock_guard lock(mu_);
  return name_;
}

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

namespace {

thread_local constinit ThreadBuffer* mine = nullptr;

// A thread-local owner of a buffer. When the thread ends, another thread may take the buffer.
struct Leaving {
  ~Leaving() {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mu);
    registry.ended.push_back(std::exchange(mine, nullptr));
  }
};

// Call it with the registry's mutex held. Null if no thread of that name has ended.
ThreadBuffer* TakeEnded(Registry& registry, std::string_view name) {
  const auto found = std::find_if(registry.ended.begin(), registry.ended.end(),
                                  [&](ThreadBuffer* buffer) { return buffer->name() == name; });
  if (found == registry.ended.end()) return nullptr;
  ThreadBuffer* const buffer = *found;
  registry.ended.erase(found);
  return buffer;
}

}  // namespace

ThreadBuffer& MyBuffer(std::string_view name) {
  if (mine) return *mine;
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  mine = TakeEnded(registry, name);
  if (!mine) {
    const int id = static_cast<int>(registry.buffers.size()) + 1;
    mine = registry.buffers.emplace_back(std::make_unique<ThreadBuffer>(id)).get();
  }
  thread_local const Leaving leaving;
  return *mine;
}

void Append(const char* name, Cat cat, int64_t begin, int64_t end, const TraceArgs& args,
            const NamedArgs& named) {
  ThreadBuffer& buffer = mine ? *mine : MyBuffer();
  buffer.Append(Kind::kSpan, name, cat, begin, end, args, {named.args.data(), named.count});
}

void AppendNs(const char* name, Cat cat, int64_t begin_ns, int64_t end_ns, const TraceArgs& args) {
  MyBuffer().Append(Kind::kSpanInNs, name, cat, begin_ns, end_ns, args, {});
}

void AppendCounter(const char* name, int64_t value) {
  MyBuffer().Append(Kind::kCounter, name, Cat::kOp, NowTicks(), value, {}, {});
}

}  // namespace millrace::profiler::internal
