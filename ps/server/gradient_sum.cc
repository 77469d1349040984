// SPDX-License-Identifier: Apache-2.0
#include "ps/server/gradient_sum.h"

#include <algorithm>
#include <utility>

#include "io/batch/csr_batch.h"
#include "sparse/factors.h"
#include "sparse/float4.h"

namespace millrace::ps {

void GradientSum::Add(std::span<const uint64_t> keys, std::span<const float> gradient,
                      std::span<const float> blocks) {
  if (!blocks.empty()) {
    const std::span<const uint64_t> features = io::FeatureKeys(keys);
    parts_.push_back({features.data(), features.data() + features.size(), blocks.data()});
  }
  if (!keys_.empty()) return Merge(keys, gradient);
  keys_.assign(keys.begin(), keys.end());
  gradient_.assign(gradient.begin(), gradient.end());
}

void GradientSum::Merge(std::span<const uint64_t> keys, std::span<const float> gradient) {
  const bool has_scales = gradient_.size() > keys_.size();
  if (has_scales) MergeLargest(keys, gradient.subspan(keys.size()));
  const std::span<const float> sum(gradient_.data(), keys_.size());
  gradient = gradient.first(keys.size());
  merged_keys_.resize(keys_.size() + keys.size());
  merged_.resize(keys_.size() + keys.size());
  size_t left = 0, right = 0, count = 0;
  // Without branches on the keys: which list a key comes from is as good as random.
  for (; left < keys_.size() && right < keys.size(); ++count) {
    const uint64_t a = keys_[left], b = keys[right];
    const bool from_left = a <= b, from_right = b <= a;
    const float x = sum[left], y = gradient[right];
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
  append(merged_, sum, left);
  append(merged_keys_, keys, right);
  append(merged_, gradient, right);
  if (has_scales) append(merged_, std::span<const float>(merged_largest_), 0);
  std::swap(keys_, merged_keys_);
  std::swap(gradient_, merged_);
}

void GradientSum::SumBlocks(size_t width) {
  const std::span<const uint64_t> features = io::FeatureKeys(keys_);
  const size_t before = gradient_.size();
  gradient_.resize(before + features.size() * width);
  float* out = gradient_.data() + before;
  for (const uint64_t key : features) {
    bool is_first = true;
    for (Part& part : parts_) {
      if (part.key == part.end || *part.key != key) continue;
      for (size_t f = 0; f < width; f += sparse::kFactorLanes) {
        const sparse::Float4 g = sparse::Load4(part.block + f);
        sparse::Store4(out + f, is_first ? g : sparse::Load4(out + f) + g);
      }
      is_first = false;
      ++part.key;
      part.block += width;
    }
    out += width;
  }
}

// Before Merge changes anything.
void GradientSum::MergeLargest(std::span<const uint64_t> keys, std::span<const float> largest) {
  const std::span<const float> ours(gradient_.data() + keys_.size(), keys_.size());
  merged_largest_.clear();
  size_t left = 0, right = 0;
  while (left < keys_.size() || right < keys.size()) {
    const bool from_left =
        right == keys.size() || (left < keys_.size() && keys_[left] <= keys[right]);
    const bool from_right =
        left == keys_.size() || (right < keys.size() && keys[right] <= keys_[left]);
    const float x = from_left ? ours[left] : 0.0f, y = from_right ? largest[right] : 0.0f;
    merged_largest_.push_back(std::max(x, y));
    left += from_left;
    right += from_right;
  }
}

}  // namespace millrace::ps
