#include "tools/report/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tools/report/json_cursor.h"
#include "tools/report/resource_file.h"
#include "tools/report/trace_file.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

Result<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path, errno);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Texts and numbers as they are written; one level of objects as "outer.inner".
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

ProcessData& ProcessOf(RunData& run, const std::string& name) {
  for (ProcessData& process : run.processes) {
    if (process.name == name) return process;
  }
  run.processes.emplace_back().name = name;
  return run.processes.back();
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

}  // namespace millrace::tools
