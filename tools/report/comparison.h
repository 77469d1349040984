// SPDX-License-Identifier: Apache-2.0
// Several runs side by side: metrics, flags that differ, speed, memory, and whether two runs really
// differ on their test set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/report/diagnosis.h"
#include "tools/report/predictions.h"
#include "tools/report/run_data.h"

namespace millrace::report {

// What a comparison keeps of a run: neither spans nor samples.
struct ComparedRun {
  std::string path;
  std::string name;                        // the last part of the path that tells the runs apart
  std::map<std::string, std::string> run;  // as in RunData
  std::vector<std::string> metric_names;
  std::vector<std::vector<double>> metrics;
  std::string bottleneck, sentence;  // of the diagnosis; "unknown" without a trace
  double seconds = 0, examples = 0, examples_per_s = 0;
  double peak_memory_bytes = 0;  // of all processes together
  double cpu_cores = 0;          // that the processes used on average
  std::optional<Predictions> predictions;
  std::vector<std::string> warnings;

  // Index of a column; -1: none.
  ptrdiff_t Column(const std::string& name) const;
  // NaN where there is none.
  double Final(const std::string& metric) const;
  double Best(const std::string& metric) const;
  // Of the last evaluation with at most so many examples.
  double At(const std::string& metric, double examples) const;
};

// `run` is from LoadRun; reads predictions.csv of its folder in addition.
ComparedRun SummarizeRun(const RunData& run, uint64_t memory_bytes);

struct RunDifference {
  size_t run = 0;                 // compared with Comparison::best
  Difference logloss;             // this run's minus the best one's
  std::optional<Difference> auc;  // the same
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<std::string> metrics;  // names that any run has
  std::vector<std::string> flags;    // names of flags that differ, without those of places
  // The most examples that all runs have been evaluated at or after; 0: none.
  double equal_examples = 0;
  // The run with the lowest logloss on the largest group of runs with the same test predictions.
  std::optional<size_t> best;
  std::vector<RunDifference> differences;  // of the other runs of that group
};

Comparison Compare(std::vector<ComparedRun> runs);

// Whether a larger value of the metric is better.
bool IsLargerBetter(const std::string& metric);

std::string ComparisonText(const Comparison& comparison);

// The data of the comparison page.
std::string ComparisonJson(const Comparison& comparison);

// "tie", "worse" or "better" than the best run by logloss.
std::string DifferenceText(const Difference& difference);

// One line for each folder of a run in `folder`: name, status, examples, metrics. A folder without
// any is an error.
Result<std::string> WatchText(const std::string& folder, double now_s);

}  // namespace millrace::report
