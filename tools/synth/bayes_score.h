// SPDX-License-Identifier: Apache-2.0
// The metrics of a predictor that knows the hidden model, on the test part.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace::synth {

// Collects the rows of one shard. Shards are merged in order, so that sums do not depend on the
// number of threads.
class BayesScore {
 public:
  void Add(double margin, bool label);
  void Merge(const BayesScore& other);

  uint64_t rows() const { return ranked_.size(); }
  uint64_t positives() const { return positives_; }
  double LogLoss() const;
  // The logloss of always predicting the share of positives.
  double BaseLogLoss() const;
  // Exact, ties counted half; 0.5 when there is only one class. Sorts the rows.
  double Auc();

 private:
  double loss_ = 0;
  uint64_t positives_ = 0;
  std::vector<uint64_t> ranked_;  // order of the margin in the upper bits, label in the last bit
};

}  // namespace millrace::synth
