// SPDX-License-Identifier: Apache-2.0
#include "tools/report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "tools/common/json_cursor.h"

namespace millrace::report {
namespace {

using tools::JsonCursor;
namespace fs = std::filesystem;

constexpr size_t kMaxProcesses = 10000;
constexpr size_t kMaxMetrics = 256;
constexpr size_t kMaxRunJsonBytes = 4 << 20;
constexpr size_t kMaxGraphBytes = 1 << 20;

Status CheckSize(const std::string& path, std::string_view bytes, size_t limit) {
  if (bytes.size() <= limit) return {};
  return Corrupt(path + ": expected at most " + std::to_string(limit) + " bytes, found " +
                 std::to_string(bytes.size()));
}

// Texts and numbers as they are in `text`; one level of objects as "outer.inner".
void ReadMembers(JsonCursor& json, std::string_view text, const std::string& prefix, RunData& run) {
  json.Object([&](std::string_view key) {
    const std::string name = prefix + std::string(key);
    if (json.Peek() == '"') {
      run.run[name] = json.String();
    } else if (json.Peek() == '{' && prefix.empty()) {
      ReadMembers(json, text, name + ".", run);
    } else {
      const size_t begin = json.offset();
      json.Skip();
      run.run[name] = text.substr(begin, json.offset() - begin);
    }
  });
}

Status ReadRunJson(std::string_view text, const std::string& path, RunData& run) {
  RETURN_IF_ERROR(CheckSize(path, text, kMaxRunJsonBytes));
  run.run_json = text;
  JsonCursor json(run.run_json, path);
  ReadMembers(json, run.run_json, "", run);
  if (!json.status().ok()) run.run_json.clear(), run.run.clear();
  return json.status();
}

// A run that is killed leaves its last progress, which says nothing any more.
Status ReadProgress(std::string_view text, const std::string& path, RunData& run) {
  RETURN_IF_ERROR(CheckSize(path, text, kMaxRunJsonBytes));
  JsonCursor json(text, path);
  ReadMembers(json, text, "progress.", run);
  return json.status();
}

Status ReadMetrics(std::string_view text, const std::string& path, MemoryBudget& budget,
                   RunData& run) {
  if (!run.metric_names.empty()) return Corrupt(path + ": expected one file of metrics");
  size_t number = 1;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; ++number) {
    const std::vector<std::string_view> cells = CsvCells(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (number == 1) {
      const std::set<std::string_view> unique(cells.begin(), cells.end());
      if (cells.size() > kMaxMetrics || unique.size() < cells.size()) {
        return Corrupt(path + ": line 1: expected at most " + std::to_string(kMaxMetrics) +
                       " different column names");
      }
      for (const std::string_view cell : cells)
        run.metric_names.emplace_back(Shortened(cell, kMaxNameBytes));
      continue;
    }
    if (cells.size() != run.metric_names.size()) {
      return Corrupt(path + ": line " + std::to_string(number) + ": expected " +
                     std::to_string(run.metric_names.size()) + " cells, found " +
                     std::to_string(cells.size()) + "; the rows before it are used");
    }
    if (!budget.Take(sizeof(std::vector<double>) + 16 + cells.size() * sizeof(double)))
      return budget.Exceeded(path);
    std::vector<double>& row = run.metrics.emplace_back();
    row.reserve(cells.size());
    for (const std::string_view cell : cells) row.push_back(CsvNumber(cell));
  }
  return {};
}

// "trace-worker-0.json" with start "trace-" and end ".json" is "worker-0".
std::string Between(const std::string& name, std::string_view start, std::string_view end) {
  if (name.size() <= start.size() + end.size()) return "";
  if (!name.starts_with(start) || !name.ends_with(end)) return "";
  return name.substr(start.size(), name.size() - start.size() - end.size());
}

// Workers before servers, "worker-2" before "worker-10".
bool ComesBefore(const ProcessData& a, const ProcessData& b) {
  if (a.is_server() != b.is_server()) return b.is_server();
  if (a.name.size() != b.name.size()) return a.name.size() < b.name.size();
  return a.name < b.name;
}

// The process of a trace; empty for other files.
std::string TracedProcess(const std::string& name, Traces traces) {
  if (traces == Traces::kNone) return "";
  for (const std::string_view end : {".json", ".json.gz"}) {
    std::string process = Between(name, traces == Traces::kWhole ? "trace-" : "recent-", end);
    if (!process.empty() && process != kMergedTrace) return process;
  }
  return "";
}

}  // namespace

uint32_t NameTable::Id(std::string_view name) {
  name = Shortened(name, kMaxNameBytes);
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<uint32_t>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(name, id);
  return id;
}

uint32_t NameTable::Find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? ~uint32_t{0} : found->second;
}

uint64_t ToCount(double value) {
  constexpr double kTooLarge = 18446744073709551616.0;  // 2^64
  if (!(value > 0)) return 0;
  return value < kTooLarge ? static_cast<uint64_t>(value) : std::numeric_limits<uint64_t>::max();
}

size_t ProcessData::num_samples() const {
  const auto times = samples.find("time_ns");
  return times == samples.end() ? 0 : times->second.size();
}

int64_t ProcessData::Arg(const Span& span, uint32_t arg, int64_t otherwise) const {
  for (uint32_t i = 0; i < span.num_args; ++i) {
    if (args[span.first_arg + i].name == arg) return args[span.first_arg + i].value;
  }
  return otherwise;
}

size_t RunData::num_spans() const {
  size_t spans = 0;
  for (const ProcessData& process : processes) {
    for (const TracedThread& thread : process.threads) spans += thread.spans.size();
  }
  return spans;
}

double RunData::Number(const std::string& name) const {
  const auto found = run.find(name);
  const double value = found == run.end() ? 0 : CsvNumber(found->second);
  return std::isfinite(value) ? value : 0;
}

ProcessData& ProcessOf(RunData& run, const std::string& name) {
  for (ProcessData& process : run.processes) {
    if (process.name == name) return process;
  }
  run.processes.emplace_back().name = name;
  return run.processes.back();
}

std::vector<double> Rates(const ProcessData& process, std::string_view column) {
  const auto values = process.samples.find(column);
  const auto times = process.samples.find("time_ns");
  if (values == process.samples.end() || times == process.samples.end()) return {};
  std::vector<double> rates;
  for (size_t i = 1; i < values->second.size(); ++i) {
    const double seconds = (times->second[i] - times->second[i - 1]) * 1e-9;
    rates.push_back(seconds > 0 ? (values->second[i] - values->second[i - 1]) / seconds : 0);
  }
  return rates;
}

double Growth(const ProcessData& process, std::string_view column, int64_t begin_ns,
              int64_t end_ns) {
  const size_t n = process.num_samples();
  const auto found = process.samples.find(column);
  if (n < 2 || found == process.samples.end()) return 0;
  const std::vector<double>& times = process.samples.find("time_ns")->second;
  const std::vector<double>& values = found->second;
  const auto at = [&](int64_t ns) {
    const auto time = static_cast<double>(ns);
    const auto later =
        std::clamp<ptrdiff_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin(), 1,
                              static_cast<ptrdiff_t>(n) - 1);
    const auto i = static_cast<size_t>(later);
    const double gap = times[i] - times[i - 1];
    const double share = gap > 0 ? std::clamp((time - times[i - 1]) / gap, 0.0, 1.0) : 0;
    return values[i - 1] + share * (values[i] - values[i - 1]);
  };
  return at(end_ns) - at(begin_ns);
}

void SetOrigin(RunData& run) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const ProcessData& process : run.processes) {
    for (const TracedThread& thread : process.threads) {
      if (!thread.spans.empty()) origin = std::min(origin, thread.spans.front().begin_ns);
    }
    const auto times = process.samples.find("time_ns");
    if (times != process.samples.end() && !times->second.empty()) {
      origin = std::min(origin, static_cast<int64_t>(times->second.front()));
    }
  }
  if (origin == std::numeric_limits<int64_t>::max()) return;
  run.origin_ns += origin;
  for (ProcessData& process : run.processes) {
    for (TracedThread& thread : process.threads) {
      for (Span& span : thread.spans) span.begin_ns -= origin, span.end_ns -= origin;
    }
    for (CounterSample& sample : process.counters) sample.time_ns -= origin;
    for (Flow& flow : process.flows) flow.time_ns -= origin;
    const auto times = process.samples.find("time_ns");
    if (times == process.samples.end()) continue;
    for (double& time : times->second) time -= static_cast<double>(origin);
  }
}

RunLoader::RunLoader(std::string path, Traces traces, uint64_t memory_bytes)
    : traces_(traces), budget_(memory_bytes) {
  run_.path = std::move(path);
}

bool RunLoader::Wants(const std::string& name) const {
  return name == "run.json" || name == "metrics.csv" ||
         (name == "progress.json" && traces_ == Traces::kRecent) || name == "graph.dot" ||
         !TracedProcess(name, traces_).empty() || !Between(name, "resources-", ".csv").empty();
}

void RunLoader::Warn(const Status& status) {
  if (!status.ok()) run_.warnings.push_back(status.message());
}

void RunLoader::Add(const std::string& name, std::string_view bytes) { Warn(Read(name, bytes)); }

void RunLoader::AddFromFolder(const std::string& name) {
  const MemoryBudget before = budget_;
  const Result<std::string> bytes = ReadRegularFile(run_.path + "/" + name, budget_);
  if (!bytes.ok()) {
    budget_ = before;
    return Warn(bytes.status());
  }
  Add(name, *bytes);
  budget_.Return(bytes->size());
}

Status RunLoader::Read(const std::string& name, std::string_view bytes) {
  const std::string path = run_.path + "/" + name;
  if (name == "run.json") return ReadRunJson(bytes, path, run_);
  if (name == "progress.json") return ReadProgress(bytes, path, run_);
  if (name == "metrics.csv") return ReadMetrics(bytes, path, budget_, run_);
  if (name == "graph.dot") {
    RETURN_IF_ERROR(CheckSize(path, bytes, kMaxGraphBytes));
    run_.graph_dot = bytes;
    return {};
  }
  const std::string traced = TracedProcess(name, traces_);
  const std::string process = traced.empty() ? Between(name, "resources-", ".csv") : traced;
  if (process.empty()) return {};
  if (run_.processes.size() >= kMaxProcesses)
    return Corrupt(path + ": expected at most " + std::to_string(kMaxProcesses) + " processes");
  return traced.empty() ? ReadResourcesOf(process, path, bytes) : ReadTraceOf(process, path, bytes);
}

// What a corrupt trace holds before the error is dropped: its spans would give a wrong diagnosis.
Status RunLoader::ReadTraceOf(const std::string& process, const std::string& path,
                              std::string_view bytes) {
  const MemoryBudget before = budget_;
  ProcessData traced;
  const Status status = ReadTrace(bytes, path, budget_, run_.names, traced);
  if (!status.ok()) {
    budget_ = before;
    return status;
  }
  ProcessData& known = ProcessOf(run_, process);
  if (known.trace_bytes > 0) return Corrupt(path + ": expected one trace of " + process);
  traced.name = process;
  traced.samples = std::move(known.samples);
  traced.thread_samples = std::move(known.thread_samples);
  known = std::move(traced);
  return {};
}

Status RunLoader::ReadResourcesOf(const std::string& process, const std::string& path,
                                  std::string_view bytes) {
  ProcessData sampled;
  const Status status = ReadResources(bytes, path, budget_, sampled);
  if (!status.ok() && sampled.num_samples() == 0) return status;
  ProcessData& known = ProcessOf(run_, process);
  known.samples = std::move(sampled.samples);
  known.thread_samples = std::move(sampled.thread_samples);
  return status;
}

Result<RunData> RunLoader::Finish() {
  if (run_.processes.empty() && run_.run_json.empty()) {
    if (!run_.warnings.empty())
      return Corrupt(run_.path + ": no file of the run is readable: " + run_.warnings.front());
    return NotFound(run_.path + " is no run folder: expected run.json, trace-*.json or " +
                    "resources-*.csv in it");
  }
  std::sort(run_.processes.begin(), run_.processes.end(), ComesBefore);
  SetOrigin(run_);
  return std::move(run_);
}

Result<RunData> LoadRun(const std::string& path, Traces traces, uint64_t memory_bytes) {
  RunLoader loader(path, traces, memory_bytes);
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (loader.Wants(name)) names.push_back(std::move(name));
  }
  if (error) return IoError("cannot list the run folder " + path, error.value());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) loader.AddFromFolder(name);
  return loader.Finish();
}

}  // namespace millrace::report
