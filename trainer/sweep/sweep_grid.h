// SPDX-License-Identifier: Apache-2.0
// The configurations of a sweep: lr or fm models that differ in the numbers of their optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/status.h"
#include "sparse/update_options.h"

namespace millrace::trainer {

struct SweepConfig {
  // Option and value, as given or drawn, in the order of the text. A rate may be "auto".
  std::vector<std::pair<std::string, std::string>> options;
  sparse::UpdateOptions update;  // a rate of 0 is "auto"
};

// A sweep has at least 2 and at most this number of configurations.
constexpr size_t kMaxSweep = 64;

// Options that can be swept, comma separated, for messages.
std::string SweepOptionNames();

// Two forms, with `base` for what they leave open:
//
//   learning_rate=0.05,0.1,0.2;l1=0,1     each combination; the last option varies fastest
//   random:8                              8 draws; random:8;learning_rate=0.01..1;l1=0..2;l2=0,1
//
// Random draws are seeded and have three digits. LOW..HIGH is uniform in the logarithm if LOW is
// above 0, and uniform otherwise; a list is drawn from. An option that is not named has its value
// in `base`, but without any the ranges are those of RandomRanges.
Result<std::vector<SweepConfig>> ParseSweep(std::string_view text,
                                            const sparse::UpdateOptions& base, uint64_t seed);

// The ranges of "random:N" alone: the rule's default rate / 10 .. * 10 and, for FTRL, l1=0.01..10.
std::string RandomRanges(sparse::Rule rule);

}  // namespace millrace::trainer
