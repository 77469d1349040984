// Named spans, flow arrows and counters of every thread, written as Chrome trace JSON (opens in
// Perfetto and chrome://tracing).
//
// A span lasts from its scope's construction to its end:
//
//   TRACE_SCOPE("margins", Cat::kCompute, {.rows = rows, .nnz = nnz});
//
// Arguments that are known only at the end, and ones with names of their own (at most kMaxNamed;
// names are string literals, a later value replaces an earlier one):
//
//   TraceScope wait("exchange_wait", Cat::kNetwork);
//   ...
//   wait.args().bytes = reply.size();
//   wait.Set("server_ns", reply.server_ns);
//
// Spans that follow each other share a reading of the clock, which is what a span costs:
//
//   TraceScope op("margins", Cat::kCompute);
//   ...
//   op.Then("loss_residuals", Cat::kCompute);
//
// A flow arrow goes from one span to another, in any thread or process; both name the same id:
//
//   send.FlowOut(id);       // in the worker's exchange_send; once for each shard
//   serve.FlowIn(id);       // in the server's serve_exchange
//
// A span whose times were taken elsewhere, and a number over time:
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
// Off by default: a scope then costs one relaxed load. Switched on, it takes two clock readings and
// an append, without locks, to a buffer that belongs to its thread. Buffers are bounded; what does
// not fit is counted and stated in the file.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/ticks.h"

namespace millrace::profiler {

// The part of a step that a span's time belongs to.
enum class Cat : uint8_t {
  kOp,  // no part of a step by itself
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
  // Of all threads' buffers together: 16 bytes a span, 4 for each of its arguments and 8 for each
  // that has a name of its own (twice that and more where names or values are long); about five
  // times that in the file. Room is taken in pieces of 64 KB.
  size_t max_bytes = size_t{256} << 20;
  // Steps that are traced; MarkStep counts them. All without MarkStep.
  uint64_t first_step = 0;
  uint64_t last_step = ~uint64_t{0};
};

inline constexpr size_t kMaxNamed = 8;

// Negative: left out.
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
  std::array<Arg, kMaxNamed> args;  // the first `count` hold something
  uint32_t count = 0;

  NamedArgs() {}  // `args` is left as it is: scopes are made often
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

// Forgets earlier spans and begins to record, at once or with the first step of the window.
void StartTracing(const TraceOptions& options = {});
void StopTracing();
inline bool TracingOn() { return internal::tracing.load(std::memory_order_relaxed); }

// Step `step` (counted from 0) begins, or `step` of them are done and no other will begin.
inline void MarkStep(uint64_t step) {
  if (internal::has_window.load(std::memory_order_relaxed)) internal::EnterStep(step);
}

void SetProcess(std::string_view name);
void SetClockOffset(int64_t offset_ns);
std::string ProcessName();
int64_t ClockOffsetNs();

// The calling thread's name in the timeline. The kernel is told as well (its first 15 characters),
// so that tools that list threads show it.
void NameThread(std::string_view name);

// Writes all that was recorded so far, by a temporary file that then takes the name. To be called
// after StopTracing; a span that is appended meanwhile may or may not be in it. `process_name`
// empty: that of SetProcess. Returns an empty string, or what went wrong.
[[nodiscard]] std::string WriteTrace(const std::string& path, std::string_view process_name = {});

// The same text, of the newest events alone: about `max_events` of each thread. For looking at a
// process that goes on.
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

  // Ends the span, and begins another one at that moment.
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
