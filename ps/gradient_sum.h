// The sum of several workers' sparse gradients.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "io/base/pod_vector.h"

namespace millrace::ps {

// Gradients are added from left to right, so the result depends on the order of the calls and on
// nothing else. Not thread-safe.
class GradientSum {
 public:
  void Clear() {
    keys_.clear();
    gradient_.clear();
  }

  // Keys are sorted and unique.
  void Add(std::span<const uint64_t> keys, std::span<const float> gradient) {
    if (keys_.empty()) {
      keys_.assign(keys.begin(), keys.end());
      gradient_.assign(gradient.begin(), gradient.end());
      return;
    }
    Merge(keys, gradient);
  }

  std::span<const uint64_t> keys() const { return keys_; }
  std::span<float> gradient() { return gradient_; }

 private:
  // Without branches on the keys: which list a key comes from is as good as random.
  void Merge(std::span<const uint64_t> keys, std::span<const float> gradient) {
    const size_t left = keys_.size(), right = keys.size();
    merged_keys_.resize(left + right);
    merged_.resize(left + right);
    size_t i = 0, j = 0, count = 0;
    while (i < left && j < right) {
      const uint64_t a = keys_[i], b = keys[j];
      const bool from_left = a <= b, from_right = b <= a;
      merged_keys_[count] = from_left ? a : b;
      merged_[count] = (from_left ? gradient_[i] : 0.0f) + (from_right ? gradient[j] : 0.0f);
      i += from_left;
      j += from_right;
      ++count;
    }
    for (; i < left; ++i, ++count) {
      merged_keys_[count] = keys_[i];
      merged_[count] = gradient_[i];
    }
    for (; j < right; ++j, ++count) {
      merged_keys_[count] = keys[j];
      merged_[count] = gradient[j];
    }
    merged_keys_.resize(count);
    merged_.resize(count);
    std::swap(keys_, merged_keys_);
    std::swap(gradient_, merged_);
  }

  io::PodVector<uint64_t> keys_, merged_keys_;
  io::PodVector<float> gradient_, merged_;
};

}  // namespace millrace::ps
