// SPDX-License-Identifier: Apache-2.0
#include "tools/report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tools/report/json_cursor.h"

namespace millrace::report {
namespace {

namespace fs = std::filesystem;

Result<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path, errno);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Texts and numbers as they are in the file; one level of objects as "outer.inner".
void ReadMembers(JsonCursor& json, const std::string& prefix, RunData& run) {
  json.Object([&](std::string_view key) {
    const std::string name = prefix + std::string(key);
    if (json.Peek() == '"') {
      run.run[name] = json.String();
    } else if (json.Peek() == '{' && prefix.empty()) {
      ReadMembers(json, name + ".", run);
    } else {
      const size_t begin = json.offset();
      json.Skip();
      run.run[name] = run.run_json.substr(begin, json.offset() - begin);
    }
  });
}

Status ReadRunJson(const std::string& path, RunData& run) {
  ASSIGN_OR_RETURN(run.run_json, ReadSmallFile(path));
  JsonCursor json(run.run_json, path);
  ReadMembers(json, "", run);
  return json.status();
}

double CellValue(std::string_view cell) {
  double value = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

std::vector<std::string_view> Cells(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

Status ReadMetrics(const std::string& path, RunData& run) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path));
  size_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // a row that is being written
    const auto cells = Cells(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (number == 0) {
      run.metric_names.assign(cells.begin(), cells.end());
      continue;
    }
    if (cells.size() != run.metric_names.size()) {
      return Corrupt(path + ": line " + std::to_string(number + 1) + ": expected " +
                     std::to_string(run.metric_names.size()) + " cells, found " +
                     std::to_string(cells.size()));
    }
    std::vector<double>& row = run.metrics.emplace_back();
    for (const std::string_view cell : cells) row.push_back(CellValue(cell));
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

Status LoadFile(const std::string& path, const std::string& name, Traces traces, RunData& run) {
  if (name == "run.json") return ReadRunJson(path, run);
  if (name == "metrics.csv") return ReadMetrics(path, run);
  if (name == "graph.dot") {
    ASSIGN_OR_RETURN(run.graph_dot, ReadSmallFile(path));
    return {};
  }
  for (const std::string_view end : {".json", ".json.gz"}) {
    const std::string process = Between(name, traces == Traces::kWhole ? "trace-" : "recent-", end);
    if (!process.empty() && process != kMergedTrace && traces != Traces::kNone)
      return ReadTraceFile(path, run.names, ProcessOf(run, process));
  }
  const std::string process = Between(name, "resources-", ".csv");
  return process.empty() ? Status() : ReadResourceFile(path, ProcessOf(run, process));
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double Value(std::string_view cell) {
  double value = kNaN;
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

std::string_view TakeUntil(std::string_view& text, char mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

// "input@1234=1.20+0.05;..."
void AddThreads(std::string_view text, size_t sample, ProcessData& process) {
  while (!text.empty()) {
    std::string_view entry = TakeUntil(text, ';');
    const std::string_view name = TakeUntil(entry, '@');
    int64_t tid = 0;
    const std::string_view id = TakeUntil(entry, '=');
    std::from_chars(id.data(), id.data() + id.size(), tid);
    const double user = Value(TakeUntil(entry, '+'));
    ProcessData::ThreadTimes& times = process.thread_samples[tid];
    times.name = name;
    times.cpu_s.resize(sample, kNaN);
    times.cpu_s.push_back(user + Value(entry));
  }
}

// Replaces the last but one sample with the last, if they are close together: the last sample is
// taken when the process exits. Since the kernel counts CPU time in units of 10 ms, a short
// interval would give rates of many times the cores. A process too short for any rate keeps one
// sample.
void JoinLastSamples(ProcessData& process) {
  constexpr double kShortestNs = 100e6;
  const size_t n = process.num_samples();
  if (n < 2) return;
  const std::vector<double>& time = process.samples["time_ns"];
  const double shortest_ns = n < 3 ? kShortestNs : (time[n - 2] - time[n - 3]) / 2;
  if (time[n - 1] - time[n - 2] > shortest_ns) return;
  const auto drop = [&](std::vector<double>& values) {
    values.erase(values.begin() + static_cast<ptrdiff_t>(n - 2));
  };
  for (auto& [column, values] : process.samples) drop(values);
  for (auto& [tid, times] : process.thread_samples) drop(times.cpu_s);
}

}  // namespace

uint32_t NameTable::Id(std::string_view name) {
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
  return found == run.end() ? 0 : std::atof(found->second.c_str());
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

Result<RunData> LoadRun(const std::string& path, Traces traces) {
  RunData run;
  run.path = path;
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return IoError("cannot list the run folder " + path, error.value());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    RETURN_IF_ERROR(LoadFile(path + "/" + name, name, traces, run));
  }
  if (run.processes.empty() && run.run_json.empty()) {
    return NotFound(path + " is no run folder: expected run.json, trace-*.json or " +
                    "resources-*.csv in it");
  }
  std::sort(run.processes.begin(), run.processes.end(), ComesBefore);
  SetOrigin(run);
  return run;
}

Status ReadResourceFile(const std::string& path, ProcessData& process) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path, errno);
  std::string line;
  std::vector<std::string> columns;
  for (size_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    std::string_view rest = line;
    if (number == 1) {
      while (!rest.empty()) columns.emplace_back(TakeUntil(rest, ','));
      continue;
    }
    const size_t sample = process.samples["steady_ns"].size();
    for (size_t c = 0; c + 1 < columns.size(); ++c) {
      const double value = Value(TakeUntil(rest, ','));
      if (std::isnan(value)) {
        return Corrupt(path + ": line " + std::to_string(number) + ": expected a number for " +
                       columns[c]);
      }
      process.samples[columns[c]].push_back(value);
    }
    AddThreads(rest, sample, process);
    process.samples["time_ns"].push_back(process.samples["steady_ns"].back() +
                                         process.samples["clock_offset_ns"].back());
  }
  for (auto& [tid, times] : process.thread_samples) times.cpu_s.resize(process.num_samples(), kNaN);
  JoinLastSamples(process);
  return {};
}

}  // namespace millrace::report
