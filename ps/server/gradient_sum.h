// SPDX-License-Identifier: Apache-2.0
// The sum of several workers' sparse gradients, and the largest of their values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/base/pod_vector.h"

namespace millrace::ps {

// Gradients are added from left to right, so the result depends on the order of the calls and on
// nothing else. Not thread-safe.
class GradientSum {
 public:
  void Clear() {
    keys_.clear();
    gradient_.clear();
    parts_.clear();
  }

  // Keys are sorted and unique. With scales (sparse/weight_store.h) the gradient is followed by the
  // largest |value| of each key, of which the sum keeps the largest. `blocks` has that of the
  // factors, if any: [features][width]. With blocks, keys and blocks stay valid until SumBlocks.
  void Add(std::span<const uint64_t> keys, std::span<const float> gradient,
           std::span<const float> blocks = {});
  // After the last Add: the sums of blocks of `width` floats follow behind the gradient.
  void SumBlocks(size_t width);

  std::span<const uint64_t> keys() const { return keys_; }
  std::span<float> gradient() { return gradient_; }

 private:
  struct Part {
    const uint64_t* key;
    const uint64_t* end;
    const float* block;
  };

  void Merge(std::span<const uint64_t> keys, std::span<const float> gradient);
  void MergeLargest(std::span<const uint64_t> keys, std::span<const float> largest);

  PodVector<uint64_t> keys_, merged_keys_;
  PodVector<float> gradient_, merged_, merged_largest_;
  std::vector<Part> parts_;
};

}  // namespace millrace::ps
