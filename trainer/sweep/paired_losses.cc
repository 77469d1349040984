// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/paired_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/base/status.h"

namespace millrace::trainer {

PairedLosses::PairedLosses(size_t models)
    : models_(models), pairs_(models < 2 ? 0 : models * (models - 1) / 2) {}

void PairedLosses::Add(std::span<const std::span<const double>> losses,
                       std::span<const float> weights) {
  CHECK(losses.size() == models_);
  if (models_ == 0) return;
  const size_t rows = losses.front().size();
  plain_.assign(rows, 1);
  for (size_t r = 0; r < weights.size(); ++r) plain_[r] = static_cast<double>(weights[r]);
  squared_.resize(rows);
  for (size_t r = 0; r < rows; ++r) {
    squared_[r] = plain_[r] * plain_[r];
    w_ += plain_[r];
    ww_ += squared_[r];
  }
  rows_ += rows;
  for (size_t a = 1; a < models_; ++a) {
    for (size_t b = 0; b < a; ++b) {
      Sums& sums = pairs_[PlaceOf(a, b)];
      for (size_t r = 0; r < rows; ++r) {
        const double d = losses[a][r] - losses[b][r];
        sums.wd += plain_[r] * d;
        sums.wwd += squared_[r] * d;
        sums.wwdd += squared_[r] * d * d;
      }
    }
  }
}

// The variance of a weighted mean m = sum(w d) / sum(w): sum(w^2 (d - m)^2) / sum(w)^2.
PairedLosses::Difference PairedLosses::Of(size_t a, size_t b) const {
  if (a == b) return {.mean = 0, .error = 0};
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (rows_ < 2 || !(w_ > 0)) return {.mean = kNaN, .error = kNaN};
  const Sums& sums = pairs_[PlaceOf(std::max(a, b), std::min(a, b))];
  const double mean = sums.wd / w_;
  const double squares = sums.wwdd - 2 * mean * sums.wwd + mean * mean * ww_;
  const auto rows = static_cast<double>(rows_);
  const double variance = std::max(squares, 0.0) / (w_ * w_) * rows / (rows - 1);
  return {.mean = a > b ? mean : -mean, .error = std::isnan(squares) ? kNaN : std::sqrt(variance)};
}

double SimultaneousFactor(size_t models) {
  const double pairs = models < 2 ? 1 : static_cast<double>(models * (models - 1) / 2);
  const double tail = 0.05 / 2 / pairs;
  double low = 0, high = 40;  // the upper tail of the normal distribution falls
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > tail ? low : high) = middle;
  }
  return low;
}

}  // namespace millrace::trainer
