// SPDX-License-Identifier: Apache-2.0
#include "ps/server/gradient_sum.h"

#include <algorithm>
#include <utility>

namespace millrace::ps {
namespace {

// Keys from `key` to `end`, and their gradients.
struct Range {
  const uint64_t* key;
  const uint64_t* end;
  const float* gradient;

  size_t size() const { return static_cast<size_t>(end - key); }
};

// Two ranges on their way into one.
struct TwoRanges {
  Range left, right;
  uint64_t* key;
  float* gradient;

  // That can be made without a look at the ends.
  size_t steps() const { return std::min(left.size(), right.size()); }

  // Without branches on the keys: which list a key comes from is as good as random.
  void Step() {
    const uint64_t a = *left.key, b = *right.key;
    const bool from_left = a <= b, from_right = b <= a;
    const float x = *left.gradient, y = *right.gradient;
    *key++ = from_left ? a : b;
    *gradient++ = (from_left ? x : 0.0f) + (from_right ? y : 0.0f);
    left.key += from_left;
    left.gradient += from_left;
    right.key += from_right;
    right.gradient += from_right;
  }

  void Finish() {
    while (steps() > 0) Step();
    for (const Range& rest : {left, right}) {
      key = std::copy(rest.key, rest.end, key);
      gradient = std::copy(rest.gradient, rest.gradient + rest.size(), gradient);
    }
  }
};

// Each step waits for the one before it; those of two pairs do not wait for each other.
void MergeBoth(TwoRanges& first, TwoRanges& second) {
  TwoRanges a = first, b = second;
  for (size_t steps; (steps = std::min(a.steps(), b.steps())) > 0;) {
    for (; steps > 0; --steps) {
      a.Step();
      b.Step();
    }
  }
  a.Finish();
  b.Finish();
  first = a;
  second = b;
}

}  // namespace

void GradientSum::Add(std::span<const uint64_t> keys, std::span<const float> gradient) {
  if (!keys_.empty()) return Merge(keys, gradient);
  keys_.assign(keys.begin(), keys.end());
  gradient_.assign(gradient.begin(), gradient.end());
}

// The lower and the upper half of the keys at the same time; then they are moved together.
void GradientSum::Merge(std::span<const uint64_t> keys, std::span<const float> gradient) {
  const size_t left = keys_.size(), right = keys.size();
  const size_t left_half = left / 2;
  const auto right_half = static_cast<size_t>(
      std::lower_bound(keys.begin(), keys.end(), keys_[left_half]) - keys.begin());
  const size_t upper = left_half + right_half;  // where the upper half goes, or less far
  merged_keys_.resize(left + right);
  merged_.resize(left + right);
  const auto ours = [&](size_t begin, size_t end) {
    return Range{keys_.data() + begin, keys_.data() + end, gradient_.data() + begin};
  };
  const auto theirs = [&](size_t begin, size_t end) {
    return Range{keys.data() + begin, keys.data() + end, gradient.data() + begin};
  };
  TwoRanges low = {ours(0, left_half), theirs(0, right_half), merged_keys_.data(), merged_.data()};
  TwoRanges high = {ours(left_half, left), theirs(right_half, right), merged_keys_.data() + upper,
                    merged_.data() + upper};
  MergeBoth(low, high);
  uint64_t* const end = std::copy(merged_keys_.data() + upper, high.key, low.key);
  std::copy(merged_.data() + upper, high.gradient, low.gradient);
  const auto count = static_cast<size_t>(end - merged_keys_.data());
  merged_keys_.resize(count);
  merged_.resize(count);
  std::swap(keys_, merged_keys_);
  std::swap(gradient_, merged_);
}

}  // namespace millrace::ps
