// SPDX-License-Identifier: Apache-2.0
// Ends a training run whose test metric no longer improves.
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
  std::string metric;     // a name of NamedValues(BinaryMetrics); empty: never stop
  uint64_t patience = 0;  // evaluations in a row without a new best after which the run ends
  bool higher_is_better = true;

  bool enabled() const { return !metric.empty(); }
};

// "auc:3"; "" is a rule that never stops.
Result<EarlyStopRule> ParseEarlyStop(std::string_view text);

// The part that a checkpoint stores.
struct EarlyStopState {
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: none yet
  uint64_t best_step = 0;
  uint64_t evaluations_since_best = 0;
};

class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopRule rule, EarlyStopState state = {})
      : rule_(std::move(rule)), state_(state) {}

  // Call it after each evaluation; true if the run should end. NaN is no improvement.
  bool Update(const MetricsRow& row);

  // The last evaluation has used up the patience.
  bool due() const { return rule_.enabled() && state_.evaluations_since_best >= rule_.patience; }
  const EarlyStopRule& rule() const { return rule_; }
  const EarlyStopState& state() const { return state_; }

 private:
  bool IsBetter(double value) const;

  EarlyStopRule rule_;
  EarlyStopState state_;
};

}  // namespace millrace::trainer
