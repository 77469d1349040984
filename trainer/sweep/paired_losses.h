// SPDX-License-Identifier: Apache-2.0
// Whether the losses of models on the same rows differ by more than chance: the differences row by
// row, of every pair of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::trainer {

class PairedLosses {
 public:
  explicit PairedLosses(size_t models);

  // losses[m] has the losses of model m on the next rows. `weights` is empty (all ones) or has one
  // weight a row.
  void Add(std::span<const std::span<const double>> losses, std::span<const float> weights);

  // The weighted mean of losses[a] - losses[b], with the standard error of that mean; NaN with less
  // than two rows.
  struct Difference {
    double mean, error;
  };
  Difference Of(size_t a, size_t b) const;
  uint64_t rows() const { return rows_; }

 private:
  struct Sums {
    double wd = 0, wwd = 0, wwdd = 0;  // of weights and differences
  };
  size_t PlaceOf(size_t a, size_t b) const { return a * (a - 1) / 2 + b; }  // a > b

  size_t models_;
  uint64_t rows_ = 0;
  double w_ = 0, ww_ = 0;
  std::vector<Sums> pairs_;
  std::vector<double> plain_, squared_;  // scratch: weights of rows, and their squares
};

// The factor of a standard error for intervals of all pairs of `models` at once (Bonferroni): if no
// model is better than another, all of their intervals contain 0 in 95 % of sweeps. 1.96 for two
// models, 3.13 for eight.
double SimultaneousFactor(size_t models);

}  // namespace millrace::trainer
