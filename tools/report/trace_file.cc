// SPDX-License-Identifier: Apache-2.0
#include "tools/report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "tools/common/json_cursor.h"

namespace millrace::report {
namespace {

using profiler::Cat;
using tools::JsonCursor;

constexpr size_t kMaxNames = 1 << 16;  // of all processes
constexpr size_t kMaxThreads = 1 << 16;
constexpr size_t kMaxArgs = 64;             // of a span; further ones are left out
constexpr uint64_t kThreadNodeBytes = 400;  // of a table, with the name and the first span

Cat CatFromName(std::string_view name) {
  for (int c = 0; c <= static_cast<int>(Cat::kCheckpoint); ++c) {
    if (name == profiler::CatName(static_cast<Cat>(c))) return static_cast<Cat>(c);
  }
  return Cat::kOp;
}

// Longer times are cut to the limit.
int64_t Nanoseconds(double microseconds) {
  constexpr auto kLimit = static_cast<double>(kMaxTimeNs);
  return std::llround(std::clamp(microseconds * 1e3, -kLimit, kLimit));
}

// One event of the traceEvents array, with the members that are used.
struct RawEvent {
  char ph = 0;
  std::string_view name, cat, id;  // of the text or a buffer
  std::string ph_buffer, name_buffer, cat_buffer, id_buffer;
  int64_t tid = 0;
  double ts = 0, dur = 0;
  std::string text_arg;  // args.name of metadata events
  std::vector<SpanArg> args;
};

class TraceReader {
 public:
  TraceReader(JsonCursor& json, MemoryBudget& budget, NameTable& names, ProcessData& process)
      : json_(json), budget_(budget), names_(names), process_(process) {}

  // The status of `json` has errors of the text; this one is about memory.
  bool has_memory() const { return has_memory_; }

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
        process_.dropped_spans = Count();
      } else if (key == "steps") {
        process_.steps = Count();
      } else if (key == "clock_offset_ns") {
        process_.clock_offset_ns = json_.Int(kMaxTimeNs);
      } else if (key == "steady_origin_ns") {
        origin_ns_ = json_.Int(kMaxTimeNs);
      } else if (key == "host") {
        process_.host = Shortened(json_.String(), kMaxNameBytes);
      } else if (key == "pid") {
        process_.pid = json_.Int();
      } else {
        json_.Skip();
      }
    });
  }

  uint64_t Count() { return static_cast<uint64_t>(std::max<int64_t>(0, json_.Int())); }

  void ReadEvent() {
    event_.ph = 0;
    event_.name = event_.cat = event_.id = {};
    event_.tid = 0;
    event_.ts = event_.dur = 0;
    event_.text_arg.clear();
    event_.args.clear();
    json_.Object([&](std::string_view key) {
      if (key == "ph") {
        const std::string_view ph = json_.Text(event_.ph_buffer);
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
        event_.text_arg = Shortened(json_.String(), kMaxNameBytes);
      } else if (kind == '-' || (kind >= '0' && kind <= '9')) {
        const uint32_t name = NameId(key);
        const double value = std::clamp(json_.Double(), -kMaxArg, kMaxArg);
        if (event_.args.size() < kMaxArgs)
          event_.args.push_back({name, static_cast<int64_t>(value)});
      } else {
        json_.Skip();
      }
    });
  }

  uint32_t NameId(std::string_view name) {
    const uint32_t id = names_.Id(name);
    if (names_.size() > kMaxNames)
      json_.Fail("at most " + std::to_string(kMaxNames) + " different names");
    return id;
  }

  bool Take(uint64_t bytes) {
    if (budget_.Take(bytes)) return true;
    has_memory_ = false;
    json_.Fail("less data");
    return false;
  }

  void Add() {
    const int64_t begin_ns = Nanoseconds(event_.ts);
    switch (event_.ph) {
      case 'X':
        return AddSpan(begin_ns);
      case 'C':
        if (event_.args.empty() || !Take(sizeof(CounterSample))) return;
        process_.counters.push_back({NameId(event_.name), begin_ns, event_.args[0].value});
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
    if (!Take(sizeof(Span) + event_.args.size() * sizeof(SpanArg))) return;
    Span span;
    span.name = NameId(event_.name);
    span.cat = CatFromName(event_.cat);
    span.begin_ns = begin_ns;
    span.end_ns = begin_ns + Nanoseconds(std::max(0.0, event_.dur));
    span.first_arg = static_cast<uint32_t>(process_.args.size());
    span.num_args = static_cast<uint16_t>(event_.args.size());
    process_.args.insert(process_.args.end(), event_.args.begin(), event_.args.end());
    ThreadOf(event_.tid).spans.push_back(span);
  }

  void AddFlow(int64_t time_ns) {
    if (!Take(sizeof(Flow))) return;
    const std::string_view digits = event_.id.starts_with("0x") ? event_.id.substr(2) : event_.id;
    Flow flow{.out = event_.ph == 's', .tid = event_.tid, .time_ns = time_ns};
    std::from_chars(digits.data(), digits.data() + digits.size(), flow.id, 16);
    process_.flows.push_back(flow);
  }

  TracedThread& ThreadOf(int64_t tid) {
    const auto [index, is_new] = thread_index_.try_emplace(tid, process_.threads.size());
    if (is_new) {
      process_.threads.emplace_back().tid = tid;
      if (process_.threads.size() > kMaxThreads)
        json_.Fail("at most " + std::to_string(kMaxThreads) + " threads");
      (void)Take(kThreadNodeBytes);
    }
    return process_.threads[index->second];
  }

  // Joins threads of the same name that ran one after the other, for example one per evaluation:
  // they share a line of the timeline.
  void JoinSuccessors() {
    struct Line {
      size_t thread;
      int64_t end_ns;
    };
    std::vector<TracedThread> joined;
    std::unordered_map<std::string, std::vector<Line>> lines_of;  // by name
    std::unordered_map<int64_t, int64_t> new_tid;
    for (TracedThread& thread : process_.threads) {
      int64_t end_ns = INT64_MIN;
      for (const Span& span : thread.spans) end_ns = std::max(end_ns, span.end_ns);
      std::vector<Line>& lines = lines_of[thread.name];
      const auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) {
        return !thread.name.empty() && l.end_ns <= thread.spans.front().begin_ns;
      });
      if (line == lines.end()) {
        lines.push_back({joined.size(), end_ns});
        joined.push_back(std::move(thread));
        continue;
      }
      TracedThread& earlier = joined[line->thread];
      new_tid[thread.tid] = earlier.tid;
      earlier.spans.insert(earlier.spans.end(), thread.spans.begin(), thread.spans.end());
      line->end_ns = end_ns;
    }
    for (Flow& flow : process_.flows) {
      if (const auto found = new_tid.find(flow.tid); found != new_tid.end())
        flow.tid = found->second;
    }
    process_.threads = std::move(joined);
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

  static constexpr double kMaxArg = 9e18;

  JsonCursor& json_;
  MemoryBudget& budget_;
  bool has_memory_ = true;
  NameTable& names_;
  ProcessData& process_;
  RawEvent event_;
  std::unordered_map<int64_t, size_t> thread_index_;
  int64_t origin_ns_ = 0;
};

}  // namespace

Status ReadTrace(std::string_view bytes, const std::string& path, MemoryBudget& budget,
                 NameTable& names, ProcessData& process) {
  std::string expanded;
  ASSIGN_OR_RETURN(const bool is_compressed, Expand(bytes, path, budget, expanded));
  const std::string_view text = is_compressed ? expanded : bytes;
  process.trace_bytes = text.size();
  JsonCursor json(text, path);
  TraceReader reader(json, budget, names, process);
  reader.Read();
  if (!reader.has_memory()) return budget.Exceeded(path);
  budget.Return(expanded.size());
  return json.status();
}

}  // namespace millrace::report
