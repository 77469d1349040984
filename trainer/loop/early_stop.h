// SPDX-License-Identifier: Apache-2.0
// Finds the best evaluation of a run, and ends a run whose test metric no longer improves.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/status.h"
#include "trainer/run/metrics_row.h"

namespace millrace::trainer {

struct EarlyStopRule {
  std::string metric;     // that decides which evaluation is the best; empty: none does
  uint64_t patience = 0;  // evaluations in a row without a new best that end the run; 0: no end
  bool higher_is_better = true;

  bool enabled() const { return !metric.empty(); }
};

// "auc:3"; "" is a rule that never stops.
Result<EarlyStopRule> ParseEarlyStop(std::string_view text);
// "auc": a rule that never stops, but knows the best evaluation; "" is no rule.
Result<EarlyStopRule> ParseSaveBest(std::string_view text);

// The part that a checkpoint stores.
struct EarlyStopState {
  std::string metric = {};                                 // of the rule
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: none yet
  uint64_t best_step = 0, best_examples = 0;
  std::string best_metrics = {};  // MetricsJson of that evaluation
  uint64_t evaluations_since_best = 0;
};

class EarlyStop {
 public:
  // A `state` of another metric is dropped.
  explicit EarlyStop(EarlyStopRule rule, EarlyStopState state = {});

  // Call it after each evaluation; true if it is the best so far. NaN is no improvement.
  bool Update(const MetricsRow& row);

  // The last evaluation has used up the patience: the run should end.
  bool due() const { return rule_.patience > 0 && state_.evaluations_since_best >= rule_.patience; }
  const EarlyStopRule& rule() const { return rule_; }
  const EarlyStopState& state() const { return state_; }

 private:
  bool IsBetter(double value) const;

  EarlyStopRule rule_;
  EarlyStopState state_;
};

}  // namespace millrace::trainer
