// SPDX-License-Identifier: Apache-2.0
#include "ps/server/gradient_sum.h"

#include <utility>

namespace millrace::ps {

void GradientSum::Add(std::span<const uint64_t> keys, std::span<const float> gradient) {
  if (!keys_.empty()) return Merge(keys, gradient);
  keys_.assign(keys.begin(), keys.end());
  gradient_.assign(gradient.begin(), gradient.end());
}

void GradientSum::Merge(std::span<const uint64_t> keys, std::span<const float> gradient) {
  merged_keys_.resize(keys_.size() + keys.size());
  merged_.resize(keys_.size() + keys.size());
  size_t left = 0, right = 0, count = 0;
  // Without branches on the keys: which list a key comes from is as good as random.
  for (; left < keys_.size() && right < keys.size(); ++count) {
    const uint64_t a = keys_[left], b = keys[right];
    const bool from_left = a <= b, from_right = b <= a;
    const float x = gradient_[left], y = gradient[right];
    merged_keys_[count] = from_left ? a : b;
    merged_[count] = (from_left ? x : 0.0f) + (from_right ? y : 0.0f);
    left += from_left;
    right += from_right;
  }
  merged_keys_.resize(count);
  merged_.resize(count);
  const auto append = [](auto& to, auto from, size_t begin) {
    to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(begin), from.end());
  };
  append(merged_keys_, std::span<const uint64_t>(keys_), left);
  append(merged_, std::span<const float>(gradient_), left);
  append(merged_keys_, keys, right);
  append(merged_, gradient, right);
  std::swap(keys_, merged_keys_);
  std::swap(gradient_, merged_);
}

}  // namespace millrace::ps
