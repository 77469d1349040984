// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace.h"

#include <pthread.h>
#include <unistd.h>

#include "profiler/trace_buffer.h"

namespace millrace::profiler {

using internal::TheRegistry;

namespace internal {

std::atomic<bool> tracing{false};
std::atomic<bool> has_window{false};

void NamedArgs::Set(const char* name, int64_t value) {
  for (uint32_t i = 0; i < count; ++i) {
    if (std::string_view(args[i].name) == name) {
      args[i].value = value;
      return;
    }
  }
  Add(name, value);
}

void EnterStep(uint64_t step) {
  Registry& registry = TheRegistry();
  registry.steps.store(step, std::memory_order_relaxed);
  const bool inside = step >= registry.first_step && step <= registry.last_step;
  if (inside != TracingOn()) tracing.store(inside, std::memory_order_release);
}

}  // namespace internal

const char* CatName(Cat cat) {
  constexpr const char* kNames[] = {"op",      "step",   "input",   "disk",       "compute",
                                    "network", "server", "barrier", "evaluation", "checkpoint"};
  return kNames[static_cast<size_t>(cat)];
}

void StartTracing(const TraceOptions& options) {
  internal::Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  internal::max_events = options.max_spans_per_thread;
  registry.bytes_left = static_cast<int64_t>(options.max_bytes);
  registry.first_step = options.first_step;
  registry.last_step = options.last_step;
  registry.steps = 0;
  registry.start = internal::ClockPair::Now();
  registry.wall_start_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  ++internal::current_trace;
  const TraceOptions all;
  const bool window = options.first_step != all.first_step || options.last_step != all.last_step;
  internal::has_window.store(window, std::memory_order_release);
  internal::tracing.store(!window, std::memory_order_release);
}

void StopTracing() {
  internal::has_window.store(false, std::memory_order_release);
  internal::tracing.store(false, std::memory_order_release);
}

void SetProcess(std::string_view name) {
  internal::Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  registry.process = name;
}

void SetClockOffset(int64_t offset_ns) { TheRegistry().clock_offset_ns = offset_ns; }

std::string ProcessName() {
  internal::Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  return registry.process;
}

int64_t ClockOffsetNs() { return TheRegistry().clock_offset_ns; }

void NameThread(std::string_view name) {
  constexpr size_t kKernelName = 15;
  // The main thread's name is the name of the process: keep it.
  if (::gettid() != ::getpid())
    pthread_setname_np(pthread_self(), std::string(name.substr(0, kKernelName)).c_str());
  internal::MyBuffer(name).SetName(name);
}

void TraceScope::FlowOut(uint64_t id) {
  if (name_) named_.Add(internal::kFlowOut, static_cast<int64_t>(id));
}

void TraceScope::FlowIn(uint64_t id) {
  if (name_) named_.Add(internal::kFlowIn, static_cast<int64_t>(id));
}

}  // namespace millrace::profiler
