// SPDX-License-Identifier: Apache-2.0
#include "tools/report/comparison.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <limits>
#include <set>

#include "io/base/json.h"
#include "tools/common/progress.h"
#include "tools/common/text_table.h"

namespace millrace::report {
namespace {

namespace fs = std::filesystem;

using tools::BytesText;
using tools::DurationText;
using tools::TextColumn;
using tools::TextTable;
using tools::WithCommas;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string FileName(const std::string& path) {
  const fs::path p(path);
  return (p.has_filename() ? p : p.parent_path()).filename().string();
}

// Columns of metrics.csv that are no metric.
bool IsPosition(const std::string& column) {
  return column == "step" || column == "examples" || column == "epoch" || column == "seconds";
}

// Flags that say where a run is, not what it does.
bool IsPlace(const std::string& flag) {
  constexpr const char* kPlaces[] = {
      "run_dir",  "overwrite",  "resume",    "model_out", "ps_hosts",     "worker_hosts",
      "job_name", "task_index", "dashboard", "profile",   "token_file",   "tls_cert",
      "tls_key",  "tls_ca",     "rejoin",    "sample_ms", "profile_steps"};
  return std::find(std::begin(kPlaces), std::end(kPlaces), flag) != std::end(kPlaces);
}

double SumOfPeaks(const RunData& run) {
  double bytes = 0;
  for (const ProcessData& process : run.processes) {
    for (const char* column : {"peak_resident_bytes", "resident_bytes"}) {
      const auto found = process.samples.find(column);
      if (found == process.samples.end() || found->second.empty()) continue;
      bytes += *std::max_element(found->second.begin(), found->second.end());
      break;
    }
  }
  return bytes;
}

double MeanCores(const RunData& run) {
  double cores = 0;
  for (const ProcessData& process : run.processes) {
    const auto times = process.samples.find("time_ns");
    if (process.num_samples() < 2) continue;
    const double first = times->second.front(), last = times->second.back();
    if (!(last > first)) continue;
    const auto begin = static_cast<int64_t>(first), end = static_cast<int64_t>(last);
    cores += (Growth(process, "user_s_total", begin, end) +
              Growth(process, "system_s_total", begin, end)) /
             ((last - first) * 1e-9);
  }
  return cores;
}

// The last part of each path, with as many parts before it as make the names different.
void NameRuns(std::vector<ComparedRun>& runs) {
  constexpr int kMostParts = 6;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    std::set<std::string> names;
    for (ComparedRun& run : runs) {
      fs::path path = fs::path(run.path).lexically_normal();
      if (!path.has_filename()) path = path.parent_path();
      run.name = path.filename().string();
      for (int p = 1; p < parts && path.has_parent_path(); ++p) {
        path = path.parent_path();
        if (!path.filename().empty()) run.name = path.filename().string() + "/" + run.name;
      }
      names.insert(run.name);
    }
    if (names.size() == runs.size()) return;
  }
}

std::string MetricText(double value) { return std::isnan(value) ? "-" : Format("%.5f", value); }

// The largest group of runs whose predictions are of the same rows.
std::vector<size_t> ComparableRuns(const std::vector<ComparedRun>& runs) {
  std::vector<size_t> largest;
  for (size_t first = 0; first < runs.size(); ++first) {
    if (!runs[first].predictions) continue;
    std::vector<size_t> group;
    for (size_t r = 0; r < runs.size(); ++r) {
      if (runs[r].predictions && AreComparable(*runs[first].predictions, *runs[r].predictions))
        group.push_back(r);
    }
    if (group.size() > largest.size()) largest = std::move(group);
  }
  if (largest.size() < 2) largest.clear();
  return largest;
}

void AddDifferences(Comparison& comparison) {
  const std::vector<size_t> group = ComparableRuns(comparison.runs);
  if (group.empty()) return;
  const auto& runs = comparison.runs;
  size_t best = group[0];
  for (const size_t r : group) {
    if (LoglossDifference(*runs[best].predictions, *runs[r].predictions).value < 0) best = r;
  }
  comparison.best = best;
  for (const size_t r : group) {
    if (r == best) continue;
    comparison.differences.push_back(
        {.run = r,
         .logloss = LoglossDifference(*runs[best].predictions, *runs[r].predictions),
         .auc = AucDifference(*runs[best].predictions, *runs[r].predictions)});
  }
}

std::string FlagOf(const ComparedRun& run, const std::string& flag) {
  const auto found = run.run.find("flags." + flag);
  return found == run.run.end() ? "" : found->second;
}

std::string IntervalText(const Difference& d) {
  return Format("%+.5f", d.value) + Format(" [%+.5f,", d.low) + Format(" %+.5f]", d.high);
}

std::string DifferencesText(const Comparison& comparison) {
  if (!comparison.best) return "";
  const ComparedRun& best = comparison.runs[*comparison.best];
  TextTable table({{"run"}, {"logloss minus that of " + best.name}, {"auc"}, {"by logloss"}});
  for (const RunDifference& d : comparison.differences) {
    table.Add({comparison.runs[d.run].name, IntervalText(d.logloss),
               d.auc ? IntervalText(*d.auc) : "-", DifferenceText(d.logloss)});
  }
  return "\npaired differences on " + WithCommas(best.predictions->rows()) +
         " test rows, with intervals of 95 %\n" + table.Text();
}

void Numbers(const std::vector<std::vector<double>>& rows, size_t column, JsonWriter& json) {
  json.BeginArray();
  constexpr size_t kMostPoints = 5000;
  const size_t stride = rows.size() / (kMostPoints + 1) + 1;
  for (size_t r = 0; r < rows.size(); r += stride)
    std::isfinite(rows[r][column]) ? json.Double(rows[r][column]) : json.Null();
  json.EndArray();
}

void Value(const char* key, double value, JsonWriter& json) {
  json.Key(key);
  std::isfinite(value) ? json.Double(value) : json.Null();
}

void Text(const char* key, const std::string& value, JsonWriter& json) {
  json.Key(key);
  json.String(value);
}

void WriteRun(const Comparison& comparison, const ComparedRun& run, JsonWriter& json) {
  json.BeginObject();
  Text("name", run.name, json);
  Text("path", run.path, json);
  const auto status = run.run.find("status");
  Text("status", status == run.run.end() ? "" : status->second, json);
  Text("bottleneck", run.bottleneck, json);
  Text("sentence", run.sentence, json);
  Value("seconds", run.seconds, json);
  Value("examples", run.examples, json);
  Value("examples_per_s", run.examples_per_s, json);
  Value("memory", run.peak_memory_bytes, json);
  Value("cores", run.cpu_cores, json);
  json.Key("flags");
  json.BeginObject();
  for (const std::string& flag : comparison.flags) Text(flag.c_str(), FlagOf(run, flag), json);
  json.EndObject();
  json.Key("summary");
  json.BeginObject();
  for (const std::string& metric : comparison.metrics) {
    json.Key(metric);
    json.BeginObject();
    Value("final", run.Final(metric), json);
    Value("best", run.Best(metric), json);
    Value("equal", run.At(metric, comparison.equal_examples), json);
    json.EndObject();
  }
  json.EndObject();
  json.Key("curves");
  json.BeginObject();
  for (size_t c = 0; c < run.metric_names.size(); ++c) {
    json.Key(run.metric_names[c]);
    Numbers(run.metrics, c, json);
  }
  json.EndObject();
  json.EndObject();
}

void WriteDifference(const char* key, const Difference& d, JsonWriter& json) {
  json.Key(key);
  json.BeginObject();
  Value("value", d.value, json);
  Value("low", d.low, json);
  Value("high", d.high, json);
  json.EndObject();
}

}  // namespace

bool IsLargerBetter(const std::string& metric) {
  return metric == "auc" || metric == "accuracy" || metric == "train_accuracy" ||
         metric == "precision" || metric == "recall" || metric == "f1" ||
         metric == "examples_per_s";
}

ptrdiff_t ComparedRun::Column(const std::string& column) const {
  const auto found = std::find(metric_names.begin(), metric_names.end(), column);
  return found == metric_names.end() ? -1 : found - metric_names.begin();
}

double ComparedRun::Final(const std::string& metric) const {
  const ptrdiff_t column = Column(metric);
  if (column < 0 || metrics.empty()) return kNone;
  return metrics.back()[static_cast<size_t>(column)];
}

double ComparedRun::Best(const std::string& metric) const {
  const ptrdiff_t column = Column(metric);
  double best = kNone;
  if (column < 0) return best;
  for (const std::vector<double>& row : metrics) {
    const double value = row[static_cast<size_t>(column)];
    if (std::isnan(value)) continue;
    const bool is_nearer = std::abs(value - 1) < std::abs(best - 1);
    const bool is_better = metric == "calibration"  ? is_nearer
                           : IsLargerBetter(metric) ? value > best
                                                    : value < best;
    if (std::isnan(best) || is_better) best = value;
  }
  return best;
}

double ComparedRun::At(const std::string& metric, double at) const {
  const ptrdiff_t column = Column(metric), position = Column("examples");
  double value = kNone;
  if (column < 0 || position < 0 || !(at > 0)) return value;
  for (const std::vector<double>& row : metrics) {
    if (row[static_cast<size_t>(position)] <= at) value = row[static_cast<size_t>(column)];
  }
  return value;
}

ComparedRun SummarizeRun(const RunData& run, uint64_t memory_bytes) {
  ComparedRun compared;
  const Diagnosis diagnosis = DiagnoseRun(run);
  compared.path = run.path;
  compared.name = FileName(run.path);
  compared.bottleneck = diagnosis.workers.empty() ? "unknown"
                        : IsInput(diagnosis.cause) || diagnosis.bottleneck == "host"
                            ? CauseName(diagnosis.cause)
                            : diagnosis.bottleneck;
  compared.sentence = diagnosis.sentence;
  compared.peak_memory_bytes = SumOfPeaks(run);
  compared.cpu_cores = MeanCores(run);
  compared.seconds = run.Number("seconds");
  compared.run = run.run;
  compared.metric_names = run.metric_names;
  compared.metrics = run.metrics;
  compared.warnings = run.warnings;
  const double examples = compared.Final("examples"), seconds = compared.Final("seconds");
  if (examples > 0) compared.examples = examples;
  if (examples > 0 && seconds > 0) compared.examples_per_s = examples / seconds;
  const std::string file = run.path + "/" + std::string(kPredictionsFile);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return compared;
  MemoryBudget budget(memory_bytes);
  const Result<std::string> text = ReadRegularFile(file, budget);
  if (!text.ok()) {
    compared.warnings.push_back(text.status().message());
    return compared;
  }
  Result<Predictions> predictions = ReadPredictions(*text, file, budget);
  if (predictions.ok()) {
    compared.predictions = std::move(*predictions);
    std::error_code missing;
    const auto model = fs::last_write_time(run.path + "/model/model.bin", missing);
    if (!missing && fs::last_write_time(file, error) < model && !error)
      compared.warnings.push_back(file + ": older than the model of the run; used nevertheless");
  } else {
    compared.warnings.push_back(predictions.status().message());
  }
  return compared;
}

Comparison Compare(std::vector<ComparedRun> runs) {
  Comparison comparison;
  NameRuns(runs);
  std::set<std::string> flags;
  comparison.equal_examples = std::numeric_limits<double>::infinity();
  for (const ComparedRun& run : runs) {
    for (const std::string& metric : run.metric_names) {
      const bool is_new = std::find(comparison.metrics.begin(), comparison.metrics.end(), metric) ==
                          comparison.metrics.end();
      if (is_new && !IsPosition(metric)) comparison.metrics.push_back(metric);
    }
    for (const auto& [name, value] : run.run) {
      if (name.starts_with("flags.") && !IsPlace(name.substr(6))) flags.insert(name.substr(6));
    }
    comparison.equal_examples = std::min(comparison.equal_examples, run.examples);
  }
  if (!std::isfinite(comparison.equal_examples)) comparison.equal_examples = 0;
  for (const std::string& flag : flags) {
    const bool differs = std::any_of(runs.begin(), runs.end(), [&](const ComparedRun& run) {
      return FlagOf(run, flag) != FlagOf(runs[0], flag);
    });
    if (differs) comparison.flags.push_back(flag);
  }
  comparison.runs = std::move(runs);
  AddDifferences(comparison);
  return comparison;
}

std::string DifferenceText(const Difference& difference) {
  if (difference.is_tie()) return "tie";
  return difference.value > 0 ? "worse" : "better";
}

std::string ComparisonText(const Comparison& comparison) {
  TextTable speed({{"run"},
                   {"status"},
                   {"examples", true},
                   {"time", true},
                   {"examples/s", true},
                   {"memory", true},
                   {"cores", true},
                   {"bottleneck"}});
  for (const ComparedRun& run : comparison.runs) {
    const auto status = run.run.find("status");
    speed.Add({run.name, status == run.run.end() ? "" : status->second,
               WithCommas(ToCount(run.examples)), run.seconds > 0 ? DurationText(run.seconds) : "-",
               WithCommas(ToCount(run.examples_per_s)), BytesText(ToCount(run.peak_memory_bytes)),
               Format("%.2f", run.cpu_cores), run.bottleneck});
  }
  std::string text = speed.Text();
  if (!comparison.flags.empty()) {
    std::vector<TextColumn> columns = {{"run"}};
    for (const std::string& flag : comparison.flags) columns.push_back({"--" + flag});
    TextTable flags(columns);
    for (const ComparedRun& run : comparison.runs) {
      std::vector<std::string> cells = {run.name};
      for (const std::string& flag : comparison.flags) {
        constexpr size_t kMostBytes = 40;
        cells.emplace_back(Shortened(FlagOf(run, flag), kMostBytes));
      }
      flags.Add(std::move(cells));
    }
    text += "\nflags that differ\n" + flags.Text();
  }
  const std::string at = "at " + WithCommas(ToCount(comparison.equal_examples));
  for (const char* metric : {"logloss", "auc", "accuracy"}) {
    if (std::find(comparison.metrics.begin(), comparison.metrics.end(), metric) ==
        comparison.metrics.end())
      continue;
    TextTable table({{"run"}, {"final", true}, {"best", true}, {at, true}});
    for (const ComparedRun& run : comparison.runs) {
      table.Add({run.name, MetricText(run.Final(metric)), MetricText(run.Best(metric)),
                 MetricText(run.At(metric, comparison.equal_examples))});
    }
    text += std::string("\n") + metric + ": final, best, and at equal examples\n" + table.Text();
  }
  return text + DifferencesText(comparison);
}

std::string ComparisonJson(const Comparison& comparison) {
  std::string text;
  JsonWriter json(text);
  json.BeginObject();
  Value("equal_examples", comparison.equal_examples, json);
  json.Key("metrics");
  json.BeginArray();
  for (const std::string& metric : comparison.metrics) json.String(metric);
  json.EndArray();
  json.Key("flags");
  json.BeginArray();
  for (const std::string& flag : comparison.flags) json.String(flag);
  json.EndArray();
  json.Key("runs");
  json.BeginArray();
  for (const ComparedRun& run : comparison.runs) WriteRun(comparison, run, json);
  json.EndArray();
  json.Key("best");
  comparison.best ? json.Uint(*comparison.best) : json.Null();
  Value("test_rows",
        comparison.best ? static_cast<double>(comparison.runs[*comparison.best].predictions->rows())
                        : 0,
        json);
  json.Key("differences");
  json.BeginArray();
  for (const RunDifference& d : comparison.differences) {
    json.BeginObject();
    json.Key("run");
    json.Uint(d.run);
    WriteDifference("logloss", d.logloss, json);
    if (d.auc) WriteDifference("auc", *d.auc, json);
    Text("result", DifferenceText(d.logloss), json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("warnings");
  json.BeginArray();
  for (const ComparedRun& run : comparison.runs) {
    for (const std::string& warning : run.warnings) json.String(warning);
  }
  json.EndArray();
  json.EndObject();
  return text;
}

Result<std::string> WatchText(const std::string& folder, double now_s) {
  constexpr size_t kMostRuns = 1000;
  constexpr uint64_t kMemoryBytes = 64'000'000;  // of one run
  std::error_code error;
  std::vector<std::string> paths;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path path = it->path();
    std::error_code ignored;
    if (paths.size() < kMostRuns && it->is_directory(ignored) &&
        fs::is_regular_file(fs::symlink_status(path / "run.json", ignored)))
      paths.push_back(path.string());
  }
  if (error) return IoError("cannot list " + folder, error.value());
  std::sort(paths.begin(), paths.end());
  TextTable table({{"run"},
                   {"status"},
                   {"examples", true},
                   {"examples/s", true},
                   {"loss", true},
                   {"logloss", true},
                   {"auc", true},
                   {"last change", true}});
  for (const std::string& path : paths) {
    RunLoader loader(path, Traces::kNone, kMemoryBytes);
    double changed_s = 0;
    for (const char* name : {"run.json", "metrics.csv"}) {
      struct stat info {};
      if (::lstat((path + "/" + name).c_str(), &info) != 0) continue;
      changed_s = std::max(changed_s, static_cast<double>(info.st_mtime));
      loader.AddFromFolder(name);
    }
    const Result<RunData> data = loader.Finish();
    ComparedRun run;
    run.name = FileName(path);
    if (data.ok()) {
      run.run = data->run;
      run.metric_names = data->metric_names;
      run.metrics = data->metrics;
    }
    const auto status = run.run.find("status");
    const double examples = run.Final("examples");
    table.Add({run.name,
               !data.ok()                ? "unreadable"
               : status == run.run.end() ? ""
                                         : status->second,
               WithCommas(ToCount(examples)), WithCommas(ToCount(run.Final("examples_per_s"))),
               MetricText(run.Final("loss")), MetricText(run.Final("logloss")),
               MetricText(run.Final("auc")),
               DurationText(std::max(0.0, now_s - changed_s)) + " ago"});
  }
  if (paths.empty()) return NotFound(folder + ": expected folders with a run.json, found none");
  return table.Text();
}

}  // namespace millrace::report
