// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/paired_auc.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "io/base/status.h"

namespace millrace::trainer {
namespace {

// Of one model: for each positive the share of negatives below it, and for each negative the share
// of positives above it, ties counted half; in the order of rows.
struct Shares {
  std::vector<double> of_positives, of_negatives;
};

// Rises with the margin.
uint32_t OrderedBits(float margin) {
  const auto bits = std::bit_cast<uint32_t>(margin + 0.0f);  // -0 becomes +0: they are a tie
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

Shares SharesOf(std::span<const float> margins, std::span<const uint8_t> positive,
                std::span<const float> weights) {
  // Margin and row in one number.
  std::vector<uint64_t> order(margins.size());
  for (size_t r = 0; r < margins.size(); ++r)
    order[r] = uint64_t{OrderedBits(margins[r])} << 32 | r;
  std::sort(order.begin(), order.end());
  const auto row = [&](size_t i) { return static_cast<uint32_t>(order[i]); };
  double total[2] = {};  // of the negatives, of the positives
  for (size_t r = 0; r < margins.size(); ++r) total[positive[r]] += static_cast<double>(weights[r]);
  double below[2] = {};
  std::vector<double> share(margins.size());
  for (size_t i = 0; i < order.size();) {
    const uint64_t margin = order[i] >> 32;
    const size_t begin = i;
    double tied[2] = {};
    for (; i < order.size() && order[i] >> 32 == margin; ++i) {
      tied[positive[row(i)]] += static_cast<double>(weights[row(i)]);
    }
    const double of_positives = (below[0] + tied[0] / 2) / total[0];
    const double of_negatives = (total[1] - below[1] - tied[1] / 2) / total[1];
    for (size_t k = begin; k < i; ++k) {
      share[row(k)] = positive[row(k)] ? of_positives : of_negatives;
    }
    below[0] += tied[0];
    below[1] += tied[1];
  }
  Shares shares;
  for (size_t r = 0; r < margins.size(); ++r) {
    (positive[r] ? shares.of_positives : shares.of_negatives).push_back(share[r]);
  }
  return shares;
}

}  // namespace

void PairedAuc::Add(std::span<const std::span<const float>> margins, std::span<const float> labels,
                    std::span<const float> weights) {
  CHECK(margins.size() == margins_.size());
  complete_ = complete_ && margins_.size() * (positive_.size() + labels.size()) <= most_;
  if (!complete_) {
    for (auto& own : margins_) own = {};
    return;
  }
  for (size_t r = 0; r < labels.size(); ++r) {
    positive_.push_back(labels[r] > 0 ? 1 : 0);
    weights_.push_back(weights.empty() ? 1.0f : weights[r]);
  }
  for (size_t m = 0; m < margins.size(); ++m) {
    for (const float margin : margins[m]) complete_ = complete_ && !std::isnan(margin);
    margins_[m].insert(margins_[m].end(), margins[m].begin(), margins[m].end());
  }
}

std::vector<PairedLosses::Difference> PairedAuc::Against(size_t reference) const {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<PairedLosses::Difference> all(margins_.size(), {.mean = kNaN, .error = kNaN});
  if (!complete_) return all;
  std::vector<float> weights[2];
  for (size_t r = 0; r < positive_.size(); ++r) weights[positive_[r]].push_back(weights_[r]);
  const Shares base = SharesOf(margins_[reference], positive_, weights_);
  for (size_t m = 0; m < margins_.size(); ++m) {
    const Shares own = m == reference ? base : SharesOf(margins_[m], positive_, weights_);
    PairedLosses positives(2), negatives(2);
    const std::span<const double> over_positives[] = {own.of_positives, base.of_positives};
    const std::span<const double> over_negatives[] = {own.of_negatives, base.of_negatives};
    positives.Add(over_positives, weights[1]);
    negatives.Add(over_negatives, weights[0]);
    const auto a = positives.Of(0, 1), b = negatives.Of(0, 1);
    all[m] = {.mean = a.mean, .error = std::hypot(a.error, b.error)};
  }
  return all;
}

}  // namespace millrace::trainer
