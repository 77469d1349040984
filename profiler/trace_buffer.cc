#include "profiler/trace_buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace millrace::profiler::internal {

namespace {

intptr_t DistanceOf(const char* name) {
  return std::bit_cast<intptr_t>(name) - std::bit_cast<intptr_t>(&kFlowOut[0]);
}

bool IsNear(const char* name) {
  const intptr_t distance = DistanceOf(name);
  return distance == static_cast<int32_t>(distance);
}

uint64_t Packed(const char* name, uint64_t low) {
  return static_cast<uint64_t>(DistanceOf(name)) << 32 | low;
}

const char* NameIn(uint64_t word) {
  const auto distance = static_cast<int32_t>(word >> 32);
  return std::bit_cast<const char*>(std::bit_cast<intptr_t>(&kFlowOut[0]) + distance);
}

bool IsWide(const Event& event) {
  bool wide = !IsNear(event.name);
  for (uint32_t i = 0; i < event.num_args; ++i) {
    const Arg& arg = event.args[i];
    wide = wide || !IsNear(arg.name) || arg.value != static_cast<uint32_t>(arg.value);
  }
  return wide;
}

}  // namespace

void ThreadBuffer::Append(const Event& event) {
  const bool wide = IsWide(event);
  uint64_t* words = Room(kHeaderWords + event.num_args + (wide ? 1 + event.num_args : 0));
  if (!words) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  const uint64_t head = static_cast<uint64_t>(event.kind) | static_cast<uint64_t>(event.cat) << 8 |
                        uint64_t{event.num_args} << 16;
  *words++ = wide ? head | kIsWide : Packed(event.name, head);
  if (wide) *words++ = std::bit_cast<uint64_t>(event.name);
  *words++ = static_cast<uint64_t>(event.begin);
  *words++ = static_cast<uint64_t>(event.end);
  for (uint32_t i = 0; i < event.num_args; ++i) {
    const Arg& arg = event.args[i];
    if (wide) *words++ = std::bit_cast<uint64_t>(arg.name);
    *words++ = wide ? static_cast<uint64_t>(arg.value)
                    : Packed(arg.name, static_cast<uint64_t>(arg.value));
  }
  ++events_;
  last_->used.store(static_cast<size_t>(words - last_->words.data()), std::memory_order_release);
}

// Where the next event goes; null when nothing more fits.
uint64_t* ThreadBuffer::Room(size_t words) {
  const Registry& registry = TheRegistry();
  const uint64_t trace = registry.trace.load(std::memory_order_relaxed);
  if (trace != trace_.load(std::memory_order_relaxed)) StartAfresh(trace);
  if (events_ >= registry.max_events.load(std::memory_order_relaxed)) return nullptr;
  const bool full =
      !last_ || last_->used.load(std::memory_order_relaxed) + words > last_->words.size();
  if (full && !Grow()) return nullptr;
  return last_->words.data() + last_->used.load(std::memory_order_relaxed);
}

void ThreadBuffer::StartAfresh(uint64_t trace) {
  std::lock_guard lock(mu_);
  TheRegistry().pool.GiveBack(chunks_);
  chunks_.clear();
  last_ = nullptr;
  events_ = 0;
  dropped_ = 0;
  trace_ = trace;
}

bool ThreadBuffer::Grow() {
  constexpr auto kBytes = static_cast<int64_t>(kChunkBytes);
  Registry& registry = TheRegistry();
  if (registry.bytes_left.load(std::memory_order_relaxed) < kBytes) return false;
  if (registry.bytes_left.fetch_sub(kBytes) < kBytes) {
    registry.bytes_left += kBytes;
    return false;
  }
  Chunk* const chunk = registry.pool.Take();
  if (!chunk) return false;
  std::lock_guard lock(mu_);
  chunks_.push_back(chunk);
  last_ = chunk;
  return true;
}

void ThreadBuffer::SetName(std::string_view name) {
  std::lock_guard lock(mu_);
  name_ = name;
}

void ThreadBuffer::ForEach(const TickLine& line, size_t newest,
                           const std::function<void(const Event&)>& visit) const {
  std::lock_guard lock(mu_);
  if (trace_ != TheRegistry().trace) return;
  constexpr size_t kEventsPerChunk = kChunkWords / (kHeaderWords + 2);  // with two arguments
  const size_t wanted = newest / kEventsPerChunk + 1;
  const size_t first = chunks_.size() > wanted ? chunks_.size() - wanted : 0;
  for (size_t c = first; c < chunks_.size(); ++c) {
    const Chunk* chunk = chunks_[c];
    const uint64_t* words = chunk->words.data();
    const uint64_t* end = words + chunk->used.load(std::memory_order_acquire);
    while (words != end) {
      std::array<Arg, kMaxArgs> args;
      Event event;
      const uint64_t head = *words++;
      const bool wide = (head & kIsWide) != 0;
      event.name = wide ? std::bit_cast<const char*>(*words++) : NameIn(head);
      event.kind = static_cast<Kind>(head & 0xff);
      event.cat = static_cast<Cat>(head >> 8 & 0xff);
      event.num_args = static_cast<uint32_t>(head >> 16 & 0xff);
      event.begin = static_cast<int64_t>(*words++);
      event.end = static_cast<int64_t>(*words++);
      if (event.kind != Kind::kSpanInNs) event.begin = line.ToNs(event.begin);
      if (event.kind == Kind::kSpan) event.end = line.ToNs(event.end);
      for (uint32_t i = 0; i < event.num_args; ++i) {
        args[i].name = wide ? std::bit_cast<const char*>(*words++) : NameIn(*words);
        args[i].value = wide ? static_cast<int64_t>(*words) : static_cast<uint32_t>(*words);
        ++words;
      }
      event.args = args.data();
      visit(event);
    }
  }
}

uint64_t ThreadBuffer::dropped() const {
  return trace_ == TheRegistry().trace ? dropped_.load() : 0;
}

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

// Made in a thread that takes a buffer; at its end the buffer is there for another one.
struct Leaving {
  ~Leaving() {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mu);
    registry.ended.push_back(std::exchange(mine, nullptr));
  }
};

// Under the registry's mutex. Null if no thread of that name has ended.
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

}  // namespace millrace::profiler::internal
