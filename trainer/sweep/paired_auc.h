// SPDX-License-Identifier: Apache-2.0
// Whether the AUCs of models on the same rows differ by more than chance (DeLong, DeLong,
// Clarke-Pearson 1988): an AUC is a mean over the positives of the share of negatives below each,
// and a mean over the negatives of the share of positives above each. The variance of a difference
// is the sum of those of the two paired means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/sweep/paired_losses.h"

namespace millrace::trainer {

class PairedAuc {
 public:
  // Margins of all models that are kept: 128 MB. With more rows there is no result.
  static constexpr size_t kMostMargins = size_t{1} << 25;

  explicit PairedAuc(size_t models, size_t most_margins = kMostMargins)
      : most_(most_margins), margins_(models) {}

  // margins[m] has those of model m for the next rows. Labels above 0 are positive; `weights` is
  // empty (all ones) or has one weight a row.
  void Add(std::span<const std::span<const float>> margins, std::span<const float> labels,
           std::span<const float> weights);

  // The difference AUC[m] - AUC[reference] of each model, with its standard error. NaN with less
  // than two rows of a class, with a margin that is NaN, and with too many rows.
  std::vector<PairedLosses::Difference> Against(size_t reference) const;

 private:
  const size_t most_;
  bool complete_ = true;
  std::vector<std::vector<float>> margins_;  // [models][rows]
  std::vector<uint8_t> positive_;
  std::vector<float> weights_;
};

}  // namespace millrace::trainer
