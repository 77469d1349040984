// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/bayes_score.h"

#include <algorithm>
#include <bit>

#include "tools/synth/portable_math.h"

namespace millrace::synth {
namespace {

// Maps numbers to unsigned integers in the same order. The last bit is dropped to make room for the
// label.
uint64_t OrderOf(double number) {
  const auto bits = std::bit_cast<uint64_t>(number);
  const uint64_t ordered = bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
  return ordered & ~uint64_t{1};
}

}  // namespace

void BayesScore::Add(double margin, bool label) {
  loss_ += synth::LogLoss(margin, label);
  positives_ += label ? 1 : 0;
  ranked_.push_back(OrderOf(margin) | (label ? 1 : 0));
}

void BayesScore::Merge(const BayesScore& other) {
  loss_ += other.loss_;
  positives_ += other.positives_;
  ranked_.insert(ranked_.end(), other.ranked_.begin(), other.ranked_.end());
}

double BayesScore::LogLoss() const { return loss_ / static_cast<double>(rows()); }

double BayesScore::BaseLogLoss() const {
  const double p = static_cast<double>(positives_) / static_cast<double>(rows());
  if (p == 0 || p == 1) return 0;
  return -p * Log(p) - (1 - p) * Log(1 - p);
}

double BayesScore::Auc() {
  const uint64_t negatives = rows() - positives_;
  if (positives_ == 0 || negatives == 0) return 0.5;
  std::sort(ranked_.begin(), ranked_.end());
  // Pairs whose positive row ranks higher, counted in halves.
  double half_wins = 0;
  uint64_t negatives_below = 0;
  for (size_t i = 0; i < ranked_.size();) {
    uint64_t tied[2] = {0, 0};  // by label
    for (const uint64_t order = ranked_[i] >> 1; i < ranked_.size() && ranked_[i] >> 1 == order;
         ++i) {
      ++tied[ranked_[i] & 1];
    }
    half_wins += static_cast<double>(tied[1]) * static_cast<double>(2 * negatives_below + tied[0]);
    negatives_below += tied[0];
  }
  return half_wins / 2 / (static_cast<double>(positives_) * static_cast<double>(negatives));
}

}  // namespace millrace::synth
