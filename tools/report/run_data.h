// SPDX-License-Identifier: Apache-2.0
// The content of a run folder, with the times of all processes on one axis.
//
// A run folder is untrusted input, and a dashboard reads it inside the process that trains. The
// readers check all that later code relies on: columns have one length, spans end after they begin,
// sums of times fit into 64 bits, names are short, and memory is bounded. A file that breaks the
// rules is left out, with a warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/status.h"
#include "profiler/trace.h"
#include "tools/report/run_file.h"

namespace millrace::report {

// Names of spans, threads, hosts and columns are cut after this many bytes.
inline constexpr size_t kMaxNameBytes = 256;

// All times that a file states are at most 31 years: the sum of a time, a duration and two clock
// offsets, and the difference of two such sums, fit into 64 bits.
inline constexpr int64_t kMaxTimeNs = 1'000'000'000'000'000'000;

// Numbers for texts that occur many times.
class NameTable {
 public:
  uint32_t Id(std::string_view name);
  // Returns a number that no span has if the name is absent.
  uint32_t Find(std::string_view name) const;
  const std::string& operator[](uint32_t id) const { return names_[id]; }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::map<std::string, uint32_t, std::less<>> ids_;
};

struct SpanArg {
  uint32_t name;
  int64_t value;
};

struct Span {
  uint32_t name = 0;
  profiler::Cat cat = profiler::Cat::kOp;
  uint16_t depth = 0;
  uint16_t num_args = 0;
  uint32_t first_arg = 0;  // in the process's args
  int64_t begin_ns = 0;    // on the run's axis
  int64_t end_ns = 0;

  int64_t duration_ns() const { return end_ns - begin_ns; }
};

// A thread, and later threads of the same name.
struct TracedThread {
  int64_t tid = 0;
  std::string name;
  std::vector<Span> spans;  // by begin; a span comes before the spans it contains
};

struct CounterSample {
  uint32_t name;
  int64_t time_ns;
  int64_t value;
};

struct Flow {
  uint64_t id = 0;
  bool out = false;
  int64_t tid = 0;
  int64_t time_ns = 0;
};

// One process: its trace and its samples; either may be missing.
struct ProcessData {
  std::string name;  // "worker-0"
  int64_t pid = 0;
  std::string host;
  uint64_t dropped_spans = 0;
  uint64_t steps = 0;  // of the whole run, if only a window is traced; else 0
  int64_t clock_offset_ns = 0;
  uint64_t trace_bytes = 0;  // of the file; 0: no trace
  std::vector<TracedThread> threads;
  std::vector<SpanArg> args;
  std::vector<CounterSample> counters;
  std::vector<Flow> flows;
  // Samples: column name to finite values, all of one length; "time_ns" is on the run's axis.
  std::map<std::string, std::vector<double>, std::less<>> samples;
  struct ThreadTime {
    size_t sample;
    double cpu_s;  // user and system
  };
  struct ThreadTimes {
    std::string name;
    std::vector<ThreadTime> times;  // by sample, while the thread existed
  };
  std::map<int64_t, ThreadTimes> thread_samples;  // by thread id

  bool is_server() const { return name.starts_with("ps-"); }
  size_t num_samples() const;
  int64_t Arg(const Span& span, uint32_t name, int64_t otherwise) const;
};

struct RunData {
  std::string path;
  std::string run_json;                    // the file's text; empty: none
  std::string graph_dot;                   // of a net; empty: none
  std::map<std::string, std::string> run;  // run.json's top-level texts and numbers, and "flags.*",
                                           // "host.*", "metrics.*", "predicted.*"; of a live
                                           // run progress.json's as "progress.*"
  std::vector<std::string> metric_names;
  std::vector<std::vector<double>> metrics;  // one row per evaluation; NaN: undefined
  NameTable names;
  std::vector<ProcessData> processes;  // workers, then servers, by number
  std::vector<std::string> warnings;   // one for each file that is ignored, or used in part
  int64_t origin_ns = 0;               // of the axis, on the common clock

  size_t num_spans() const;
  // The number that run.json has as `name`; 0 without it.
  double Number(const std::string& name) const;
};

enum class Traces {
  kWhole,   // trace-*.json[.gz], which processes write when they exit
  kRecent,  // recent-*.json, of running processes
  kNone,
};

inline constexpr uint64_t kRunMemoryBytes = 4'000'000'000;

// Reads run.json, metrics.csv, graph.dot, traces and resources-*.csv, as far as they exist. A file
// that is no regular file, is corrupt, or does not fit into `memory_bytes` together with the others
// is ignored with a warning. A folder without any readable file of a run is an error.
Result<RunData> LoadRun(const std::string& path, Traces traces = Traces::kWhole,
                        uint64_t memory_bytes = kRunMemoryBytes);

// The same from files in memory.
class RunLoader {
 public:
  RunLoader(std::string path, Traces traces, uint64_t memory_bytes = kRunMemoryBytes);

  // Whether a file of this name belongs to the data of a run.
  bool Wants(const std::string& name) const;
  // `bytes` count against the budget only while they are read.
  void Add(const std::string& name, std::string_view bytes);
  void AddFromFolder(const std::string& name);
  Result<RunData> Finish();

 private:
  Status Read(const std::string& name, std::string_view bytes);
  Status ReadTraceOf(const std::string& process, const std::string& path, std::string_view bytes);
  Status ReadResourcesOf(const std::string& process, const std::string& path,
                         std::string_view bytes);
  void Warn(const Status& status);

  RunData run_;
  const Traces traces_;
  MemoryBudget budget_;
};

// Moves the axis so that the earliest time is 0. To be called after times were added by hand.
void SetOrigin(RunData& run);

// The change of a sampled column per second, between neighbouring samples: one value less than the
// column has.
std::vector<double> Rates(const ProcessData& process, std::string_view column);

// The growth of a sampled column between two times, interpolated between samples. 0 without at
// least two samples.
double Growth(const ProcessData& process, std::string_view column, int64_t begin_ns,
              int64_t end_ns);

ProcessData& ProcessOf(RunData& run, const std::string& name);

// The files of a run folder: traces and resource samples of its processes.

// The trace of all processes is trace-all.json.gz.
inline constexpr std::string_view kMergedTrace = "all";

// Reads a Chrome trace (plain or compressed) into `process`, which has none yet. Times are on the
// common clock. `path` is for messages.
Status ReadTrace(std::string_view bytes, const std::string& path, MemoryBudget& budget,
                 NameTable& names, ProcessData& process);

// Writes all processes on one axis as Chrome trace JSON, compressed with gzip.
Status WriteMergedTrace(const RunData& run, const std::string& path);

// Reads resources-*.csv: the samples of `process`, which has none yet. A last line without its line
// end (the process is still writing, or was killed) is left out. Lines that are no samples are left
// out too, and are an error; the samples of the other lines are in `process` nevertheless.
Status ReadResources(std::string_view text, const std::string& path, MemoryBudget& budget,
                     ProcessData& process);

// The cells of a line of CSV without quotes.
std::vector<std::string_view> CsvCells(std::string_view line);

// `value` without its fraction; 0 for NaN and negative numbers, the largest count for larger ones.
uint64_t ToCount(double value);

// NaN if `cell` does not begin with a number.
double CsvNumber(std::string_view cell);

}  // namespace millrace::report
