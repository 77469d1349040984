// SPDX-License-Identifier: Apache-2.0
#include "tools/report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "io/record/byte_source.h"
#include "tools/report/json_cursor.h"

namespace millrace::report {
namespace {

using profiler::Cat;

constexpr size_t kReadBytes = 4 << 20;

Result<std::string> ReadWhole(const std::string& path) {
  ASSIGN_OR_RETURN(const io::OpenedSource source, io::OpenSource(path));
  std::string text;
  size_t got = kReadBytes;
  while (got == kReadBytes) {
    const size_t old = text.size();
    text.resize(old + kReadBytes);
    RETURN_IF_ERROR(source.bytes->Read({text.data() + old, kReadBytes}, &got));
    text.resize(old + got);
  }
  return text;
}

Cat CatFromName(std::string_view name) {
  for (int c = 0; c <= static_cast<int>(Cat::kCheckpoint); ++c) {
    if (name == profiler::CatName(static_cast<Cat>(c))) return static_cast<Cat>(c);
  }
  return Cat::kOp;
}

int64_t Nanoseconds(double microseconds) { return std::llround(microseconds * 1e3); }

// One event of the traceEvents array, with the members that are used.
struct RawEvent {
  char ph = 0;
  std::string_view name, cat, id;
  std::string name_buffer, cat_buffer, id_buffer;
  int64_t tid = 0;
  double ts = 0, dur = 0;
  std::string text_arg;  // args.name of metadata events
  std::vector<SpanArg> args;
};

class TraceReader {
 public:
  TraceReader(JsonCursor& json, NameTable& names, ProcessData& process)
      : json_(json), names_(names), process_(process) {}

  void Read() {
    json_.Object([&](std::string_view key) {
      if (key == "traceEvents") {
        json_.Array([&] { ReadEvent(); });
      } else if (key == "otherData") {
        ReadOther();
      } else {
        json_.Skip();
      }
    });
    const int64_t shift = origin_ns_ + process_.clock_offset_ns;
    for (TracedThread& thread : process_.threads) Arrange(thread, shift);
    for (CounterSample& sample : process_.counters) sample.time_ns += shift;
    for (Flow& flow : process_.flows) flow.time_ns += shift;
    std::erase_if(process_.threads, [](const TracedThread& t) { return t.spans.empty(); });
    JoinSuccessors();
    std::stable_partition(process_.threads.begin(), process_.threads.end(), HasSteps);
  }

 private:
  void ReadOther() {
    json_.Object([&](std::string_view key) {
      if (key == "dropped_spans") {
        process_.dropped_spans = static_cast<uint64_t>(json_.Int());
      } else if (key == "steps") {
        process_.steps = static_cast<uint64_t>(json_.Int());
      } else if (key == "clock_offset_ns") {
        process_.clock_offset_ns = json_.Int();
      } else if (key == "steady_origin_ns") {
        origin_ns_ = json_.Int();
      } else if (key == "host") {
        process_.host = json_.String();
      } else if (key == "pid") {
        process_.pid = json_.Int();
      } else {
        json_.Skip();
      }
    });
  }

  void ReadEvent() {
    event_.ph = 0;
    event_.args.clear();
    event_.dur = 0;
    json_.Object([&](std::string_view key) {
      if (key == "ph") {
        const std::string_view ph = json_.Text(event_.id_buffer);
        event_.ph = ph.empty() ? '\0' : ph[0];
      } else if (key == "name") {
        event_.name = json_.Text(event_.name_buffer);
      } else if (key == "cat") {
        event_.cat = json_.Text(event_.cat_buffer);
      } else if (key == "id") {
        event_.id = json_.Text(event_.id_buffer);
      } else if (key == "tid") {
        event_.tid = json_.Int();
      } else if (key == "ts") {
        event_.ts = json_.Double();
      } else if (key == "dur") {
        event_.dur = json_.Double();
      } else if (key == "args") {
        ReadArgs();
      } else {
        json_.Skip();
      }
    });
    if (json_.status().ok()) Add();
  }

  void ReadArgs() {
    json_.Object([&](std::string_view key) {
      const char kind = json_.Peek();
      if (kind == '"') {
        event_.text_arg = json_.String();
      } else if (kind == '-' || (kind >= '0' && kind <= '9')) {
        const uint32_t name = names_.Id(key);
        event_.args.push_back({name, static_cast<int64_t>(json_.Double())});
      } else {
        json_.Skip();
      }
    });
  }

  void Add() {
    const int64_t begin_ns = Nanoseconds(event_.ts);
    switch (event_.ph) {
      case 'X':
        return AddSpan(begin_ns);
      case 'C':
        if (event_.args.empty()) return;
        process_.counters.push_back({names_.Id(event_.name), begin_ns, event_.args[0].value});
        return;
      case 's':
      case 'f':
        return AddFlow(begin_ns);
      case 'M':
        if (event_.name == "thread_name") ThreadOf(event_.tid).name = event_.text_arg;
        return;
      default:
        return;
    }
  }

  void AddSpan(int64_t begin_ns) {
    Span span;
    span.name = names_.Id(event_.name);
    span.cat = CatFromName(event_.cat);
    span.begin_ns = begin_ns;
    span.end_ns = begin_ns + Nanoseconds(event_.dur);
    span.first_arg = static_cast<uint32_t>(process_.args.size());
    span.num_args = static_cast<uint16_t>(event_.args.size());
    process_.args.insert(process_.args.end(), event_.args.begin(), event_.args.end());
    ThreadOf(event_.tid).spans.push_back(span);
  }

  void AddFlow(int64_t time_ns) {
    const std::string_view digits = event_.id.starts_with("0x") ? event_.id.substr(2) : event_.id;
    Flow flow{.out = event_.ph == 's', .tid = event_.tid, .time_ns = time_ns};
    std::from_chars(digits.data(), digits.data() + digits.size(), flow.id, 16);
    process_.flows.push_back(flow);
  }

  TracedThread& ThreadOf(int64_t tid) {
    const auto [index, is_new] = thread_index_.try_emplace(tid, process_.threads.size());
    if (is_new) process_.threads.emplace_back().tid = tid;
    return process_.threads[index->second];
  }

  // Joins threads of the same name that ran one after the other, for example one per evaluation:
  // they share a line of the timeline.
  void JoinSuccessors() {
    std::vector<TracedThread> lines;
    std::vector<int64_t> ends;
    for (TracedThread& thread : process_.threads) {
      size_t l = 0;
      while (l < lines.size() && (thread.name.empty() || lines[l].name != thread.name ||
                                  ends[l] > thread.spans.front().begin_ns)) {
        ++l;
      }
      int64_t end = 0;
      for (const Span& span : thread.spans) end = std::max(end, span.end_ns);
      if (l == lines.size()) {
        lines.push_back(std::move(thread));
        ends.push_back(end);
        continue;
      }
      for (Flow& flow : process_.flows) {
        if (flow.tid == thread.tid) flow.tid = lines[l].tid;
      }
      lines[l].spans.insert(lines[l].spans.end(), thread.spans.begin(), thread.spans.end());
      ends[l] = end;
    }
    process_.threads = std::move(lines);
  }

  static bool HasSteps(const TracedThread& thread) {
    return std::any_of(thread.spans.begin(), thread.spans.end(),
                       [](const Span& span) { return span.cat == Cat::kStep; });
  }

  // Sorts the spans of a thread and finds the depth of each.
  static void Arrange(TracedThread& thread, int64_t shift) {
    for (Span& span : thread.spans) span.begin_ns += shift, span.end_ns += shift;
    std::sort(thread.spans.begin(), thread.spans.end(), [](const Span& a, const Span& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    std::vector<int64_t> ends;
    for (Span& span : thread.spans) {
      while (!ends.empty() && ends.back() <= span.begin_ns) ends.pop_back();
      span.depth = static_cast<uint16_t>(ends.size());
      ends.push_back(span.end_ns);
    }
  }

  JsonCursor& json_;
  NameTable& names_;
  ProcessData& process_;
  RawEvent event_;
  std::unordered_map<int64_t, size_t> thread_index_;
  int64_t origin_ns_ = 0;
};

}  // namespace

Status ReadTraceText(std::string_view text, const std::string& path, NameTable& names,
                     ProcessData& process) {
  process.threads.clear();
  process.args.clear();
  JsonCursor json(text, path);
  TraceReader(json, names, process).Read();
  return json.status();
}

Status ReadTraceFile(const std::string& path, NameTable& names, ProcessData& process) {
  ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
  process.trace_bytes = text.size();
  return ReadTraceText(text, path, names, process);
}

}  // namespace millrace::report
