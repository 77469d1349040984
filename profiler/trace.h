// SPDX-License-Identifier: Apache-2.0
// Named spans, flow arrows and counters of every thread, written as Chrome trace JSON (opens in
// Perfetto and chrome://tracing).
//
// A span lasts from its scope's construction to its end:
//
//   TRACE_SCOPE("margins", Cat::kCompute, {.rows = rows, .nnz = nnz});
//
// Arguments that are known only at the end, and named arguments (at most kMaxNamed; names are
// string literals, a later value replaces an earlier one):
//
//   TraceScope wait("exchange_wait", Cat::kNetwork);
//   ...
//   wait.args().bytes = reply.size();
//   wait.Set("server_ns", reply.server_ns);
//
// Consecutive spans share a clock reading, which is the main cost of a span:
//
//   TraceScope op("margins", Cat::kCompute);
//   ...
//   op.Then("loss_residuals", Cat::kCompute);
//
// A flow arrow goes from one span to another, in any thread or process; both name the same id:
//
//   send.FlowOut(id);       // in the worker's exchange_send; once per shard
//   serve.FlowIn(id);       // in the server's serve_exchange
//
// A span with given times, and a counter:
//
//   RecordSpan("wire", Cat::kNetwork, begin_ns, end_ns, {.bytes = n});     // times of NowNs()
//   TraceCounter("batches_ready", ready);
//
// In main, and in threads:
//
//   SetProcess("worker-0");            // the name in the timeline and of the files
//   SetClockOffset(offset_ns);         // add it to NowNs() to get the job's common clock
//   NameThread("input 1");
//   StartTracing({.first_step = 100, .last_step = 120});  // or {}: everything
//   MarkStep(step);                    // once before each step: opens and closes that window
//   StopTracing(); WriteTrace(path);
//
// Tracing is off by default: a scope then costs one relaxed load. With tracing, it costs two clock
// readings and an append to a buffer of its thread, without locks. Buffers are bounded; the file
// states the number of events that did not fit.
#pragma once

#include <x86intrin.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "profiler/clock.h"

namespace millrace::profiler {

// The cheapest clock: the processor's time stamp counter if the kernel uses it as its clock, else
// the steady clock. Ticks are converted to nanoseconds of the steady clock later, by linear
// interpolation between two moments at which both were read.

namespace internal {

// Set before main, so that it does not change during a span.
inline const bool counter_is_clock = [] {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
}();

inline int64_t NowTicks() { return counter_is_clock ? static_cast<int64_t>(__rdtsc()) : NowNs(); }

struct ClockPair {
  int64_t ticks = 0;
  int64_t ns = 0;

  static ClockPair Now() { return {NowTicks(), NowNs()}; }
};

class TickLine {
 public:
  TickLine(const ClockPair& a, const ClockPair& b)
      : a_(a),
        ns_per_tick_(b.ticks > a.ticks
                         ? static_cast<double>(b.ns - a.ns) / static_cast<double>(b.ticks - a.ticks)
                         : 1) {}
  int64_t ToNs(int64_t ticks) const {
    return a_.ns + static_cast<int64_t>(static_cast<double>(ticks - a_.ticks) * ns_per_tick_);
  }

 private:
  ClockPair a_;
  double ns_per_tick_;
};

}  // namespace internal

// The part of a step that a span's time belongs to.
enum class Cat : uint8_t {
  kOp,  // not a part of a step
  kStep,
  kInput,
  kDisk,
  kCompute,
  kNetwork,
  kServer,
  kBarrier,
  kEvaluation,
  kCheckpoint,
};
const char* CatName(Cat cat);

struct TraceOptions {
  size_t max_spans_per_thread = 1 << 20;
  // The limit of all threads' buffers together. A span takes 16 bytes, 4 per argument and 8 per
  // named argument (at least twice that if names or values are long), and about five times that in
  // the file. Buffers grow in chunks of 64 KB.
  size_t max_bytes = size_t{256} << 20;
  // The steps that are traced, according to MarkStep. Without MarkStep everything is traced.
  uint64_t first_step = 0;
  uint64_t last_step = ~uint64_t{0};
};

inline constexpr size_t kMaxNamed = 8;

// Negative values are omitted.
struct TraceArgs {
  int64_t rows = -1;
  int64_t nnz = -1;
  int64_t bytes = -1;
  int64_t keys = -1;
};

namespace internal {

struct Arg {
  const char* name;
  int64_t value;
};

struct NamedArgs {
  std::array<Arg, kMaxNamed> args;  // the first `count` are valid
  uint32_t count = 0;

  NamedArgs() {}  // leaves `args` uninitialized: scopes are frequent
  void Set(const char* name, int64_t value);
  void Add(const char* name, int64_t value) {
    if (count < kMaxNamed) args[count++] = {name, value};
  }
};

extern std::atomic<bool> tracing;
extern std::atomic<bool> has_window;
// Times in ticks.
void Append(const char* name, Cat cat, int64_t begin, int64_t end, const TraceArgs& args,
            const NamedArgs& named);
void AppendNs(const char* name, Cat cat, int64_t begin_ns, int64_t end_ns, const TraceArgs& args);
void AppendCounter(const char* name, int64_t value);
void EnterStep(uint64_t step);

}  // namespace internal

// Discards earlier spans and starts recording, immediately or with the first step of the window.
void StartTracing(const TraceOptions& options = {});
void StopTracing();
inline bool TracingOn() { return internal::tracing.load(std::memory_order_relaxed); }

// Step `step` (counted from 0) begins; after the last step, call it with the number of steps.
inline void MarkStep(uint64_t step) {
  if (internal::has_window.load(std::memory_order_relaxed)) internal::EnterStep(step);
}

void SetProcess(std::string_view name);
void SetClockOffset(int64_t offset_ns);
std::string ProcessName();
int64_t ClockOffsetNs();

// Sets the calling thread's name in the timeline and, cut to 15 characters, in the kernel, so that
// tools that list threads show it.
void NameThread(std::string_view name);

// Writes all recorded events atomically. Call it after StopTracing; events that are appended during
// the call may be missing. `process_name` defaults to that of SetProcess. Returns an empty string
// or an error message.
[[nodiscard]] std::string WriteTrace(const std::string& path, std::string_view process_name = {});

// The same text with only the newest events, about `max_events` per thread, of a running process.
std::string RecentTrace(size_t max_events);

// Names must outlive the trace: use string literals.
class TraceScope {
 public:
  explicit TraceScope(const char* name, int64_t rows = -1, int64_t bytes = -1)
      : TraceScope(name, Cat::kOp, {.rows = rows, .bytes = bytes}) {}
  TraceScope(const char* name, Cat cat, const TraceArgs& args = {}) : args_(args) {
    if (!TracingOn()) return;
    name_ = name;
    cat_ = cat;
    begin_ = internal::NowTicks();
  }
  ~TraceScope() {
    if (name_) internal::Append(name_, cat_, begin_, internal::NowTicks(), args_, named_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  // Ends the span and begins another one at the same time.
  void Then(const char* name, Cat cat, const TraceArgs& args = {}) {
    if (!name_ && !TracingOn()) return;
    const int64_t now = internal::NowTicks();
    if (name_) internal::Append(name_, cat_, begin_, now, args_, named_);
    name_ = TracingOn() ? name : nullptr;
    cat_ = cat;
    begin_ = now;
    args_ = args;
    named_.count = 0;
  }
  // May be changed until the end.
  TraceArgs& args() { return args_; }
  void Set(const char* name, int64_t value) {
    if (name_) named_.Set(name, value);
  }
  void FlowOut(uint64_t id);
  void FlowIn(uint64_t id);

 private:
  const char* name_ = nullptr;  // null: not recorded
  Cat cat_ = Cat::kOp;
  int64_t begin_ = 0;  // in ticks
  TraceArgs args_;
  internal::NamedArgs named_;
};

inline void RecordSpan(const char* name, Cat cat, int64_t begin_ns, int64_t end_ns,
                       const TraceArgs& args = {}) {
  if (!TracingOn()) return;
  internal::AppendNs(name, cat, begin_ns, end_ns, args);
}

inline void TraceCounter(const char* name, int64_t value) {
  if (TracingOn()) internal::AppendCounter(name, value);
}

#define MILLRACE_TRACE_CONCAT2(a, b) a##b
#define MILLRACE_TRACE_CONCAT(a, b) MILLRACE_TRACE_CONCAT2(a, b)
#define TRACE_SCOPE(...) \
  ::millrace::profiler::TraceScope MILLRACE_TRACE_CONCAT(trace_scope_, __LINE__)(__VA_ARGS__)

}  // namespace millrace::profiler
