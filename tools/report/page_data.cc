// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "io/base/json.h"
#include "io/record/compressor.h"
#include "tools/report/graph.h"

namespace millrace::report {
namespace {

void PutVarint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

uint64_t ZigZag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}

// The number of first spans of a thread that its share of max_spans allows.
size_t SpansShown(const TracedThread& thread, size_t all, size_t max_spans) {
  if (all <= max_spans) return thread.spans.size();
  return static_cast<size_t>(static_cast<double>(thread.spans.size()) *
                             static_cast<double>(max_spans) / static_cast<double>(all));
}

void PutSpans(const ProcessData& process, const TracedThread& thread, size_t count,
              std::string& out) {
  int64_t previous_ns = 0;
  for (size_t i = 0; i < count; ++i) {
    const Span& span = thread.spans[i];
    PutVarint(static_cast<uint64_t>(span.begin_ns - previous_ns), out);
    PutVarint(static_cast<uint64_t>(span.duration_ns()), out);
    PutVarint(span.name, out);
    PutVarint(static_cast<uint64_t>(span.cat), out);
    PutVarint(span.depth, out);
    PutVarint(span.num_args, out);
    for (uint32_t a = 0; a < span.num_args; ++a) {
      PutVarint(process.args[span.first_arg + a].name, out);
      PutVarint(ZigZag(process.args[span.first_arg + a].value), out);
    }
    previous_ns = span.begin_ns;
  }
}

Result<std::string> PackedSpans(const RunData& run, size_t max_spans) {
  std::string bytes;
  const size_t all = run.num_spans();
  for (const ProcessData& process : run.processes) {
    for (const TracedThread& thread : process.threads) {
      PutSpans(process, thread, SpansShown(thread, all, max_spans), bytes);
    }
  }
  ASSIGN_OR_RETURN(const auto gzip, io::MakeCompressor(io::Compression::kGzip, 6));
  RawBuffer packed;
  RETURN_IF_ERROR(gzip->Add(bytes, packed));
  RETURN_IF_ERROR(gzip->Finish(packed));
  return Base64({packed.data(), packed.size()});
}

void Number(double value, JsonWriter& json) {
  std::isfinite(value) ? json.Double(value) : json.Null();
}

// A chart needs no more points than this. Of a longer column it has every second value, or every
// third, and so on.
constexpr size_t kMaxPoints = 20000;

size_t Stride(size_t points) { return points / (kMaxPoints + 1) + 1; }

void Numbers(const std::vector<double>& values, JsonWriter& json) {
  json.BeginArray();
  for (size_t i = 0; i < values.size(); i += Stride(values.size())) Number(values[i], json);
  json.EndArray();
}

void Text(const char* key, const std::string& value, JsonWriter& json) {
  json.Key(key);
  json.String(value);
}

void Value(const char* key, double value, JsonWriter& json) {
  json.Key(key);
  Number(value, json);
}

void WriteRun(const RunData& run, JsonWriter& json) {
  json.Key("run");
  json.BeginObject();
  for (const auto& [name, value] : run.run) Text(name.c_str(), value, json);
  json.EndObject();
  Text("path", run.path, json);
  json.Key("warnings");
  json.BeginArray();
  for (const std::string& warning : run.warnings) json.String(warning);
  json.EndArray();
  json.Key("names");
  json.BeginArray();
  for (uint32_t id = 0; id < run.names.size(); ++id) json.String(run.names[id]);
  json.EndArray();
  json.Key("cats");
  json.BeginArray();
  for (int c = 0; c <= static_cast<int>(profiler::Cat::kCheckpoint); ++c) {
    json.String(profiler::CatName(static_cast<profiler::Cat>(c)));
  }
  json.EndArray();
}

void WriteMetrics(const RunData& run, JsonWriter& json) {
  json.Key("metrics");
  json.BeginObject();
  for (size_t c = 0; c < run.metric_names.size(); ++c) {
    json.Key(run.metric_names[c]);
    json.BeginArray();
    for (size_t r = 0; r < run.metrics.size(); r += Stride(run.metrics.size()))
      Number(run.metrics[r][c], json);
    json.EndArray();
  }
  json.EndObject();
}

void WriteBreakdown(const StepBreakdown& breakdown, JsonWriter& json) {
  json.BeginObject();
  Text("process", breakdown.process, json);
  Value("total_s", breakdown.total_s, json);
  Value("steps", static_cast<double>(breakdown.steps), json);
  Value("sent_bytes", breakdown.sent_bytes, json);
  Value("received_bytes", breakdown.received_bytes, json);
  json.Key("parts");
  json.BeginObject();
  for (size_t p = 0; p < kParts; ++p)
    Value(PartName(static_cast<Part>(p)), breakdown.seconds[p], json);
  json.EndObject();
  json.EndObject();
}

void WriteDiagnosis(const Diagnosis& diagnosis, JsonWriter& json) {
  json.BeginObject();
  Text("bottleneck", diagnosis.bottleneck, json);
  Text("straggler", diagnosis.straggler, json);
  Text("sentence", diagnosis.sentence, json);
  Value("share", diagnosis.share, json);
  Value("speedup_without", diagnosis.speedup_without, json);
  if (!diagnosis.workers.empty()) {
    Text("cause", CauseName(diagnosis.cause), json);
    json.Key("speedups");
    json.BeginObject();
    for (const auto& [cause, speedup] : diagnosis.speedups) Value(CauseName(cause), speedup, json);
    json.EndObject();
  }
  json.Key("advice");
  json.BeginArray();
  for (const Advice& advice : diagnosis.advice) {
    json.BeginObject();
    Text("text", AdviceText(advice), json);
    Value("gain", advice.gain, json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("evidence");
  json.BeginArray();
  for (const std::string& line : diagnosis.evidence) json.String(line);
  json.EndArray();
  json.Key("workers");
  json.BeginArray();
  for (const StepBreakdown& breakdown : diagnosis.workers) WriteBreakdown(breakdown, json);
  json.EndArray();
  json.EndObject();
}

void WriteOps(const std::vector<OpRow>& ops, JsonWriter& json) {
  json.Key("ops");
  json.BeginArray();
  for (const OpRow& op : ops) {
    json.BeginObject();
    Text("op", op.op, json);
    Text("description", op.description, json);
    Text("where", op.where, json);
    Text("output", op.output, json);
    Text("cat", profiler::CatName(op.cat), json);
    Value("calls", static_cast<double>(op.calls), json);
    Value("total_s", op.total_s, json);
    Value("mean_us", op.mean_us, json);
    Value("p50_us", op.p50_us, json);
    Value("p99_us", op.p99_us, json);
    Value("threads", op.threads, json);
    Value("share", op.share_of_step, json);
    Value("bytes", op.bytes, json);
    Value("gb_per_s", op.gb_per_s, json);
    json.EndObject();
  }
  json.EndArray();
}

void WriteGraph(const Graph& graph, JsonWriter& json) {
  json.Key("graph");
  json.BeginObject();
  json.Key("nodes");
  json.BeginArray();
  for (const GraphNode& node : graph.nodes) {
    json.BeginObject();
    Text("name", node.name, json);
    Text("title", node.title, json);
    Text("detail", node.detail, json);
    Text("lane", node.lane, json);
    Text("cat", node.cat, json);
    Text("op", node.op, json);
    Value("forward_s", node.forward_s, json);
    Value("backward_s", node.backward_s, json);
    Value("share", node.share_of_step, json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("back");
  json.BeginArray();
  for (const auto& [from, to] : graph.back) {
    json.BeginArray();
    json.Uint(from);
    json.Uint(to);
    json.EndArray();
  }
  json.EndArray();
  json.EndObject();
}

void WritePeaks(const std::vector<ProcessPeaks>& peaks, JsonWriter& json) {
  json.Key("peaks");
  json.BeginArray();
  for (const ProcessPeaks& process : peaks) {
    for (const PeakRow& row : process.rows) {
      json.BeginObject();
      Text("process", process.process, json);
      Text("resource", row.resource, json);
      Text("unit", row.unit, json);
      Value("mean", row.mean, json);
      Value("peak", row.peak, json);
      json.EndObject();
    }
  }
  json.EndArray();
}

using ThreadTimes = ProcessData::ThreadTimes;

// The page shows fewer threads than these.
std::vector<std::pair<int64_t, const ThreadTimes*>> BusiestThreads(const ProcessData& process) {
  constexpr size_t kMaxThreads = 32;
  const auto used_s = [](const ThreadTimes& thread) {
    return thread.times.empty() ? 0 : thread.times.back().cpu_s - thread.times.front().cpu_s;
  };
  std::vector<std::pair<int64_t, const ThreadTimes*>> threads;
  for (const auto& [tid, thread] : process.thread_samples) threads.emplace_back(tid, &thread);
  std::stable_sort(threads.begin(), threads.end(), [&](const auto& a, const auto& b) {
    return used_s(*a.second) > used_s(*b.second);
  });
  threads.resize(std::min(threads.size(), kMaxThreads));
  return threads;
}

void WriteSamples(const ProcessData& process, JsonWriter& json) {
  json.Key("samples");
  json.BeginObject();
  for (const auto& [column, values] : process.samples) {
    json.Key(column);
    Numbers(values, json);
  }
  json.EndObject();
  json.Key("thread_cpu");
  json.BeginArray();
  for (const auto& [tid, thread] : BusiestThreads(process)) {
    json.BeginObject();
    Text("name", thread->name, json);
    Value("tid", static_cast<double>(tid), json);
    json.Key("cpu_s");
    std::vector<double> cpu_s(process.num_samples(), std::numeric_limits<double>::quiet_NaN());
    for (const auto& time : thread->times) cpu_s[time.sample] = time.cpu_s;
    Numbers(cpu_s, json);
    json.EndObject();
  }
  json.EndArray();
}

// At most the first `max_events` counters, and as many flows.
void WriteCounters(const ProcessData& process, size_t max_events, JsonWriter& json) {
  json.Key("counters");
  json.BeginArray();
  for (size_t i = 0; i < std::min(max_events, process.counters.size()); ++i) {
    const CounterSample& sample = process.counters[i];
    json.BeginArray();
    json.Uint(sample.name);
    json.Int(sample.time_ns);
    json.Int(sample.value);
    json.EndArray();
  }
  json.EndArray();
  json.Key("flows");
  json.BeginArray();
  for (size_t i = 0; i < std::min(max_events, process.flows.size()); ++i) {
    const Flow& flow = process.flows[i];
    json.BeginArray();
    json.String(std::to_string(flow.id));
    json.Int(flow.out);
    json.Int(flow.tid);
    json.Int(flow.time_ns);
    json.EndArray();
  }
  json.EndArray();
}

void WriteProcesses(const RunData& run, size_t max_spans, JsonWriter& json) {
  const size_t all = run.num_spans();
  json.Key("processes");
  json.BeginArray();
  for (const ProcessData& process : run.processes) {
    json.BeginObject();
    Text("name", process.name, json);
    Value("pid", static_cast<double>(process.pid), json);
    Value("dropped_spans", static_cast<double>(process.dropped_spans), json);
    Value("trace_bytes", static_cast<double>(process.trace_bytes), json);
    Value("clock_offset_ns", static_cast<double>(process.clock_offset_ns), json);
    json.Key("threads");
    json.BeginArray();
    for (const TracedThread& thread : process.threads) {
      json.BeginObject();
      Value("tid", static_cast<double>(thread.tid), json);
      Text("name", thread.name, json);
      Value("spans", static_cast<double>(SpansShown(thread, all, max_spans)), json);
      json.EndObject();
    }
    json.EndArray();
    WriteCounters(process, max_spans, json);
    WriteSamples(process, json);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string DiagnosisJson(const Diagnosis& diagnosis) {
  std::string text;
  JsonWriter json(text);
  WriteDiagnosis(diagnosis, json);
  return text + "\n";
}

Result<std::string> PageDataJson(const RunData& run, const Diagnosis& diagnosis,
                                 const std::vector<OpRow>& ops,
                                 const std::vector<ProcessPeaks>& peaks, size_t max_spans) {
  ASSIGN_OR_RETURN(const std::string spans, PackedSpans(run, max_spans));
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  WriteRun(run, json);
  WriteMetrics(run, json);
  json.Key("diagnosis");
  WriteDiagnosis(diagnosis, json);
  WriteOps(ops, json);
  WriteGraph(MakeGraph(run, ops), json);
  WritePeaks(peaks, json);
  WriteProcesses(run, max_spans, json);
  Value("all_spans", static_cast<double>(run.num_spans()), json);
  Text("spans", spans, json);
  json.EndObject();
  return text;
}

}  // namespace millrace::report
