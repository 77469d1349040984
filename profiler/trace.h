// Named spans per thread, written as Chrome trace JSON (opens in Perfetto and chrome://tracing).
//
//   void Decode(...) {
//     TRACE_SCOPE("decode", rows, bytes);
//     ...
//   }
//
// Off by default: a scope then costs one relaxed load. Switched on, a scope takes two clock
// readings and one append to a buffer that belongs to its thread. Buffers are bounded; what does
// not fit is counted and reported in the file.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::profiler {

struct TraceOptions {
  // Spans kept per thread; 40 bytes each.
  size_t max_spans_per_thread = 1 << 20;
};

namespace internal {
extern std::atomic<bool> tracing;
void Append(const char* name, int64_t begin_ns, int64_t end_ns, int64_t rows, int64_t bytes);
inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
}  // namespace internal

// Forgets earlier spans and begins to record. Not to be called while another thread calls Start or
// WriteTrace.
void StartTracing(TraceOptions options = {});
void StopTracing();
inline bool TracingOn() { return internal::tracing.load(std::memory_order_relaxed); }

// The calling thread's name in the timeline.
void NameThread(std::string_view name);

// Writes all spans recorded so far. Call after StopTracing and when traced threads are quiet or
// joined. Returns an empty string, or what went wrong.
[[nodiscard]] std::string WriteTrace(const std::string& path, std::string_view process_name);

// `name` must outlive the trace: use string literals.
class TraceScope {
 public:
  explicit TraceScope(const char* name, int64_t rows = -1, int64_t bytes = -1)
      : name_(TracingOn() ? name : nullptr), rows_(rows), bytes_(bytes) {
    if (name_) begin_ns_ = internal::NowNs();
  }
  ~TraceScope() {
    if (name_) internal::Append(name_, begin_ns_, internal::NowNs(), rows_, bytes_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  // For arguments that are known only at the end of the span; a negative number leaves the argument
  // out.
  void SetArgs(int64_t rows, int64_t bytes = -1) {
    rows_ = rows;
    bytes_ = bytes;
  }

 private:
  const char* name_;
  int64_t begin_ns_ = 0;
  int64_t rows_;
  int64_t bytes_;
};

#define MILLRACE_TRACE_CONCAT2(a, b) a##b
#define MILLRACE_TRACE_CONCAT(a, b) MILLRACE_TRACE_CONCAT2(a, b)
#define TRACE_SCOPE(...) \
  ::millrace::profiler::TraceScope MILLRACE_TRACE_CONCAT(trace_scope_, __LINE__)(__VA_ARGS__)

}  // namespace millrace::profiler
