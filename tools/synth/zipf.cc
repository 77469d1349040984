// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/zipf.h"

#include <algorithm>
#include <bit>

#include "io/base/random.h"
#include "io/base/status.h"
#include "tools/synth/portable_math.h"

namespace millrace::synth {
namespace {

constexpr uint64_t kBucketsPerOctave = 8;

// The sum of (k+1)^-exponent over the ranks [first, first+width): one power, or Simpson's rule on
// [first+1/2, ...].
double Mass(uint64_t first, uint64_t width, double exponent) {
  const auto begin = static_cast<double>(first) + 0.5;
  const auto size = static_cast<double>(width);
  const double middle = Pow(begin + size / 2, -exponent);
  if (width == 1) return middle;
  return size / 6 * (Pow(begin, -exponent) + 4 * middle + Pow(begin + size, -exponent));
}

uint64_t NextWidth(uint64_t first) {
  return first < kZipfHead ? 1 : std::max<uint64_t>(1, std::bit_floor(first) / kBucketsPerOctave);
}

}  // namespace

std::vector<ZipfBucket> ZipfBuckets(uint64_t n, double exponent) {
  std::vector<ZipfBucket> buckets;
  double total = 0;
  for (uint64_t first = 0; first < n; first += buckets.back().width) {
    const uint64_t width = std::min(NextWidth(first), n - first);
    buckets.push_back({first, width, Mass(first, width, exponent)});
    total += buckets.back().share;
  }
  for (ZipfBucket& bucket : buckets) bucket.share /= total;
  return buckets;
}

AliasTable::AliasTable(std::span<const double> shares) : slots_(shares.size()) {
  CHECK(!shares.empty());
  const auto count = static_cast<double>(shares.size());
  std::vector<double> left(shares.begin(), shares.end());  // in units of a slot
  std::vector<uint32_t> small, large;
  for (uint32_t i = 0; i < left.size(); ++i) {
    left[i] *= count;
    (left[i] < 1 ? small : large).push_back(i);
  }
  const auto fill = [&](uint32_t slot, uint32_t alias) {
    const double full = 0x1.fffffffffffffp+63;  // the largest double below 2^64
    slots_[slot] = {static_cast<uint64_t>(std::min(left[slot] * 0x1p64, full)), alias};
  };
  while (!small.empty() && !large.empty()) {
    const uint32_t poor = small.back(), rich = large.back();
    small.pop_back();
    fill(poor, rich);
    left[rich] -= 1 - left[poor];
    if (left[rich] >= 1) continue;
    large.pop_back();
    small.push_back(rich);
  }
  for (const uint32_t i : small) fill(i, i);  // below 1 only by rounding
  for (const uint32_t i : large) fill(i, i);
}

Scatter::Scatter(uint64_t n, uint64_t seed)
    : n_(n),
      mask_(std::bit_ceil(n) - 1),
      factor_(Mix64(seed) | 1),
      offset_(Mix64(seed + 1)),
      shift_((std::bit_width(mask_) + 1) / 2) {
  CHECK(n > 0);
}

}  // namespace millrace::synth
