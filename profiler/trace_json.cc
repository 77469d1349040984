// SPDX-License-Identifier: Apache-2.0
// WriteTrace: the recorded events as Chrome trace JSON.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "profiler/session.h"
#include "profiler/trace.h"
#include "profiler/trace_buffer.h"

namespace millrace::profiler {
namespace {

using internal::Arg;
using internal::Event;
using internal::TheRegistry;

void WriteString(std::FILE* out, std::string_view text) {
  const auto is_plain = [](char c) {
    return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
  };
  std::fputc('"', out);
  const auto special = std::find_if_not(text.begin(), text.end(), is_plain);
  std::fwrite(text.data(), 1, static_cast<size_t>(special - text.begin()), out);
  for (const char c : text.substr(static_cast<size_t>(special - text.begin()))) {
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

// Microseconds with three decimals. A trace has hundreds of thousands of them.
void WriteMicroseconds(std::FILE* out, int64_t ns) {
  char text[32];
  char* at = text;
  if (ns < 0) *at++ = '-';
  const auto size = static_cast<uint64_t>(ns < 0 ? -ns : ns);
  at = std::to_chars(at, text + sizeof text, size / 1000).ptr;
  *at++ = '.';
  for (uint64_t unit = 100, left = size % 1000; unit > 0; left %= unit, unit /= 10) {
    *at++ = static_cast<char>('0' + left / unit);
  }
  std::fwrite(text, 1, static_cast<size_t>(at - text), out);
}

bool IsFlow(const Arg& arg) {
  return arg.name == internal::kFlowOut || arg.name == internal::kFlowIn;
}

// The events of one thread.
class ThreadWriter {
 public:
  ThreadWriter(std::FILE* out, int pid, int tid, int64_t origin_ns)
      : out_(out), pid_(pid), tid_(tid), origin_ns_(origin_ns) {}

  void WriteEvent(const Event& event) {
    if (event.kind == internal::Kind::kCounter) return WriteCounter(event);
    WriteSpan(event);
    for (uint32_t i = 0; i < event.num_args; ++i) {
      if (IsFlow(event.args[i])) WriteFlow(event, event.args[i]);
    }
  }

  void WriteName(const char* what, std::string_view name) {
    std::fprintf(out_, "{\"ph\":\"M\",\"cat\":\"__metadata\",\"name\":\"%s\"", what);
    WritePlace();
    std::fputs(",\"args\":{\"name\":", out_);
    WriteString(out_, name);
    std::fputs("}}", out_);
  }

  void EndLine() { std::fputs(",\n", out_); }

 private:
  void WritePlace() { std::fprintf(out_, ",\"pid\":%d,\"tid\":%d", pid_, tid_); }
  void WriteTime(int64_t ns) {
    std::fputs(",\"ts\":", out_);
    WriteMicroseconds(out_, ns - origin_ns_);
  }

  void WriteSpan(const Event& event) {
    std::fprintf(out_, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", CatName(event.cat));
    WriteString(out_, event.name);
    WritePlace();
    WriteTime(event.begin);
    std::fputs(",\"dur\":", out_);
    WriteMicroseconds(out_, event.end - event.begin);
    std::fputs(",\"args\":{", out_);
    const char* comma = "";
    for (uint32_t i = 0; i < event.num_args; ++i) {
      const Arg& arg = event.args[i];
      if (IsFlow(arg)) continue;
      std::fputs(comma, out_);
      WriteString(out_, arg.name);
      std::fprintf(out_, ":%" PRId64, arg.value);
      comma = ",";
    }
    std::fputs("}}", out_);
    EndLine();
  }

  // An arrow begins and ends at the beginning of its spans. Ids are text: numbers above 2^53 do not
  // survive most JSON readers.
  void WriteFlow(const Event& event, const Arg& arg) {
    const bool out = arg.name == internal::kFlowOut;
    std::fprintf(out_,
                 "{\"ph\":\"%s\",\"cat\":\"flow\",\"name\":\"exchange\",\"id\":\"0x%" PRIx64 "\"",
                 out ? "s" : "f\",\"bp\":\"e", static_cast<uint64_t>(arg.value));
    WritePlace();
    WriteTime(event.begin);
    std::fputs(",\"args\":{}}", out_);
    EndLine();
  }

  void WriteCounter(const Event& event) {
    std::fputs("{\"ph\":\"C\",\"cat\":\"counter\",\"name\":", out_);
    WriteString(out_, event.name);
    WritePlace();
    WriteTime(event.begin);
    std::fprintf(out_, ",\"args\":{\"value\":%" PRId64 "}}", event.end);
    EndLine();
  }

  std::FILE* out_;
  int pid_;
  int tid_;
  int64_t origin_ns_;
};

void WriteAll(std::FILE* out, std::string_view process_name, size_t newest) {
  internal::Registry& registry = TheRegistry();
  const int pid = static_cast<int>(::getpid());
  uint64_t dropped = 0;
  std::vector<const internal::ThreadBuffer*> buffers;
  internal::ClockPair start;
  {
    std::lock_guard lock(registry.mu);
    for (const auto& buffer : registry.buffers) buffers.push_back(buffer.get());
    start = registry.start;
  }
  const internal::TickLine line(start, internal::ClockPair::Now());
  std::fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
  for (const internal::ThreadBuffer* buffer : buffers) {
    ThreadWriter writer(out, pid, buffer->id(), start.ns);
    bool any = false;
    buffer->ForEach(line, newest, [&](const Event& event) {
      any = true;
      writer.WriteEvent(event);
    });
    dropped += buffer->dropped();
    if (!any || buffer->name().empty()) continue;
    writer.WriteName("thread_name", buffer->name());
    writer.EndLine();
  }
  // The array's last element has no trailing comma: strict JSON parsers read the file too.
  ThreadWriter(out, pid, 0, 0).WriteName("process_name", process_name);
  std::fputs("\n],\"otherData\":{\"process\":", out);
  WriteString(out, process_name);
  std::fputs(",\"host\":", out);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  WriteString(out, host);
  std::fprintf(out,
               ",\"pid\":\"%d\",\"dropped_spans\":\"%" PRIu64 "\",\"steps\":\"%" PRIu64
               "\",\"clock_offset_ns\":\"%" PRId64 "\",\"steady_origin_ns\":\"%" PRId64
               "\",\"wall_origin_ns\":\"%" PRId64 "\"}}\n",
               pid, dropped, registry.steps.load(), registry.clock_offset_ns.load(), start.ns,
               registry.wall_start_ns.load());
}

}  // namespace

std::string RecentTrace(size_t max_events) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  if (!out) return "";
  WriteAll(out, ProcessName(), max_events);
  std::fclose(out);
  const std::string trace(text, size);
  std::free(text);
  return trace;
}

std::string WriteTrace(const std::string& path, std::string_view process_name) {
  const std::string temporary = path + ".tmp";
  const int fd = NewFile(temporary);
  std::FILE* out = fd < 0 ? nullptr : ::fdopen(fd, "a");
  if (!out) return temporary + ": " + std::strerror(errno);
  WriteAll(out, process_name.empty() ? ProcessName() : std::string(process_name), SIZE_MAX / 2);
  const bool written = std::fflush(out) == 0 && !std::ferror(out);
  const int write_error = errno;
  std::fclose(out);
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return "";
  const std::string message = path + ": " + std::strerror(written ? errno : write_error);
  std::remove(temporary.c_str());
  return message;
}

}  // namespace millrace::profiler
