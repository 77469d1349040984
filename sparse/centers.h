// SPDX-License-Identifier: Apache-2.0
// Between the intercept of centered rows (UpdateOptions::centers) and that of rows as they are: the
// second is less by the sum of weight * center.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "io/rows/row_decoder.h"

namespace millrace::sparse {

// That sum, over weights that are added in the order of keys, or of keys of one shard after the
// other.
class CenterSum {
 public:
  explicit CenterSum(std::vector<io::ValueCenter> centers) : centers_(std::move(centers)) {}
  void Add(uint64_t key, float weight) {
    if (next_ > 0 && centers_[next_ - 1].key >= key) next_ = 0;  // the next shard
    while (next_ < centers_.size() && centers_[next_].key < key) ++next_;
    if (next_ == centers_.size() || centers_[next_].key != key) return;
    sum_ += static_cast<double>(weight) * static_cast<double>(centers_[next_].center);
  }
  double sum() const { return sum_; }

 private:
  std::vector<io::ValueCenter> centers_;  // by key
  size_t next_ = 0;
  double sum_ = 0;
};

}  // namespace millrace::sparse
