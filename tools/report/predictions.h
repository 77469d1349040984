// SPDX-License-Identifier: Apache-2.0
// The test predictions of a run, and whether two runs differ on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "tools/report/run_file.h"

namespace millrace::report {

// In the run folder, from millrace-predict --metrics --output=labeled.
inline constexpr std::string_view kPredictionsFile = "predictions.csv";

struct Predictions {
  std::vector<uint8_t> labels;  // 0 or 1
  std::vector<float> weights;   // empty: all 1
  std::vector<float> margins;
  uint64_t test_set = 0;  // a digest of labels and weights in their order

  size_t rows() const { return labels.size(); }
};

// `path` is for messages.
Result<Predictions> ReadPredictions(std::string_view text, const std::string& path,
                                    MemoryBudget& budget);

// b minus a, with the interval that holds the true difference in 95 % of all cases.
struct Difference {
  double value = 0;
  double low = 0, high = 0;

  // The interval holds 0: the data does not tell which one is better.
  bool is_tie() const { return low <= 0 && high >= 0; }
};

// Whether both are about the same rows.
bool AreComparable(const Predictions& a, const Predictions& b);

// Of two comparable sets. The logloss of each row is paired with that of the same row.
Difference LoglossDifference(const Predictions& a, const Predictions& b);

// DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver
// operating characteristic curves", 1988. Nothing with weights, or without rows of both classes.
std::optional<Difference> AucDifference(const Predictions& a, const Predictions& b);

}  // namespace millrace::report
