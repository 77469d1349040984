// SPDX-License-Identifier: Apache-2.0
// The warnings at the end of a run: results that are probably not what the user wants, although
// nothing has failed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run/metrics_row.h"

namespace millrace::trainer {

// What a run knows at its end. NaN: unknown.
struct RunFacts {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  // Training. The weights of labels are those of this process; `partial` if other workers have the
  // rest.
  double mean_loss = kUnknown;  // progressive, over all examples
  double label_weight = 0, positive_weight = 0;
  bool partial = false;

  // Test.
  std::optional<MetricsRow> last_row = {};
  // The evaluation with the lowest logloss, and the progressive loss of its row.
  double lowest_logloss = kUnknown;
  uint64_t lowest_logloss_step = 0;
  double lowest_logloss_loss = kUnknown;
  double last_epoch_loss = kUnknown;  // progressive, of this process
  // Of the distinct keys and of the entries of the first `checked_examples` test examples, the
  // shares that have no weight in the model.
  uint64_t checked_examples = 0;
  double unknown_keys = 0, unknown_entries = 0;
  bool prunes_weights = false;  // L1 sets weights of known keys to 0

  // Values of this process's rows, and those that training cannot scale. If values are used as they
  // are, those whose squares leave the range of a float.
  uint64_t values = 0, huge_values = 0, tiny_values = 0;
  float value_limit = 0;  // tiny is below its inverse
  float first_huge = 0;
  std::string first_huge_key = {};

  // Input.
  uint64_t corrupt_regions = 0, corrupt_bytes = 0;
  std::string first_corruption = {};
};

// One line each, without control characters; empty if all is well.
std::vector<std::string> RunWarnings(const RunFacts& facts);

}  // namespace millrace::trainer
