#include "profiler/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace millrace::profiler {
namespace {

struct Span {
  const char* name;
  int64_t begin_ns;
  int64_t end_ns;
  int64_t rows;
  int64_t bytes;
};

// One per thread that ever traced; outlives its thread so that the spans can still be written.
struct ThreadBuffer {
  std::mutex mu;  // uncontended: the owner appends, Start and Write look in
  std::vector<Span> spans;
  uint64_t dropped = 0;
  std::string name;
  int id = 0;
};

struct Registry {
  std::mutex mu;
  std::vector<std::shared_ptr<ThreadBuffer>>
      buffers;  // shared with the owning thread, which may end first
  std::atomic<size_t> max_spans = TraceOptions{}.max_spans_per_thread;  // read without the mutex
  int64_t start_ns = 0;
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

ThreadBuffer& MyBuffer() {
  thread_local const std::shared_ptr<ThreadBuffer> mine = [] {
    auto buffer = std::make_shared<ThreadBuffer>();
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mu);
    buffer->id = static_cast<int>(registry.buffers.size()) + 1;
    registry.buffers.push_back(buffer);
    return buffer;
  }();
  return *mine;
}

void WriteJsonString(std::FILE* out, std::string_view text) {
  std::fputc('"', out);
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      std::fprintf(out, "\\%c", c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::fprintf(out, "\\u%04x", c);
    } else {
      std::fputc(c, out);
    }
  }
  std::fputc('"', out);
}

void WriteName(std::FILE* out, const char* what, int pid, int tid, std::string_view name) {
  std::fprintf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what,
               pid, tid);
  WriteJsonString(out, name);
  std::fputs("}},\n", out);
}

void WriteSpan(std::FILE* out, int pid, int tid, const Span& s, int64_t origin_ns) {
  std::fprintf(out, "{\"ph\":\"X\",\"cat\":\"op\",\"name\":");
  WriteJsonString(out, s.name);
  std::fprintf(out, ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{", pid, tid,
               static_cast<double>(s.begin_ns - origin_ns) / 1e3,
               static_cast<double>(s.end_ns - s.begin_ns) / 1e3);
  const char* comma = "";
  if (s.rows >= 0) {
    std::fprintf(out, "\"rows\":%" PRId64, s.rows);
    comma = ",";
  }
  if (s.bytes >= 0) std::fprintf(out, "%s\"bytes\":%" PRId64, comma, s.bytes);
  std::fputs("}},\n", out);
}

}  // namespace

namespace internal {
std::atomic<bool> tracing{false};

void Append(const char* name, int64_t begin_ns, int64_t end_ns, int64_t rows, int64_t bytes) {
  ThreadBuffer& buffer = MyBuffer();
  std::lock_guard lock(buffer.mu);
  if (buffer.spans.size() >= TheRegistry().max_spans.load(std::memory_order_relaxed)) {
    ++buffer.dropped;
    return;
  }
  buffer.spans.push_back({name, begin_ns, end_ns, rows, bytes});
}
}  // namespace internal

void StartTracing(TraceOptions options) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mu);
  for (const auto& buffer : registry.buffers) {
    std::lock_guard buffer_lock(buffer->mu);
    buffer->spans.clear();
    buffer->dropped = 0;
  }
  registry.max_spans = options.max_spans_per_thread;
  registry.start_ns = internal::NowNs();
  internal::tracing.store(true, std::memory_order_release);
}

void StopTracing() { internal::tracing.store(false, std::memory_order_release); }

void NameThread(std::string_view name) {
  ThreadBuffer& buffer = MyBuffer();
  std::lock_guard lock(buffer.mu);
  buffer.name = name;
}

std::string WriteTrace(const std::string& path, std::string_view process_name) {
  const std::string temporary = path + ".tmp";
  std::FILE* out = std::fopen(temporary.c_str(), "w");
  if (!out) return temporary + ": " + std::strerror(errno);
  const int pid = static_cast<int>(::getpid());
  uint64_t dropped = 0;
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
  {
    Registry& registry = TheRegistry();
    std::lock_guard lock(registry.mu);
    for (const auto& buffer : registry.buffers) {
      std::lock_guard buffer_lock(buffer->mu);
      dropped += buffer->dropped;
      if (buffer->spans.empty()) continue;
      if (!buffer->name.empty()) WriteName(out, "thread_name", pid, buffer->id, buffer->name);
      for (const Span& s : buffer->spans) WriteSpan(out, pid, buffer->id, s, registry.start_ns);
    }
  }
  // The array's last element has no trailing comma: strict JSON parsers read the file too.
  std::fprintf(
      out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":", pid);
  WriteJsonString(out, process_name);
  std::fprintf(out, "}}\n],\"otherData\":{\"dropped_spans\":\"%" PRIu64 "\"}}\n", dropped);
  const bool written = std::fflush(out) == 0 && !std::ferror(out);
  const int write_error = errno;
  std::fclose(out);
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return "";
  const std::string message = path + ": " + std::strerror(written ? errno : write_error);
  std::remove(temporary.c_str());
  return message;
}

}  // namespace millrace::profiler
