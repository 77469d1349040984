// SPDX-License-Identifier: Apache-2.0
// Buckets of counts that grow with the count.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace::io {

// 0 to 2 * parts - 1 have one bucket each; above, every power of two is split into `parts` equal
// buckets. With 4 parts: 8-9, 10-11, 12-13, 14-15, 16-19, 20-23, ... `parts` is a power of two.
inline uint32_t LogBucket(uint64_t magnitude, uint32_t parts) {
  if (magnitude < parts) return static_cast<uint32_t>(magnitude);
  const int bits = std::countr_zero(parts);
  const int exponent = std::bit_width(magnitude) - 1;  // at least `bits`
  const auto part = static_cast<uint32_t>(magnitude >> (exponent - bits)) & (parts - 1);
  return parts * static_cast<uint32_t>(exponent - bits + 1) + part;
}

// The number of buckets of magnitudes.
inline uint32_t LogBuckets(uint32_t parts) {
  return parts * static_cast<uint32_t>(65 - std::countr_zero(parts));
}

// The buckets of signed numbers: those of magnitudes, then those of negative ones (from 1). The
// fraction of a number is dropped.
inline uint32_t SignedLogBucket(double number, uint32_t parts) {
  constexpr double kMost = 9223372036854775808.0;  // 2^63
  const double magnitude = std::min(std::trunc(std::abs(number)), kMost);
  const uint32_t bucket = LogBucket(static_cast<uint64_t>(magnitude), parts);
  return number < 0 && bucket > 0 ? LogBuckets(parts) - 1 + bucket : bucket;
}
inline uint32_t SignedLogBuckets(uint32_t parts) { return 2 * LogBuckets(parts) - 1; }

}  // namespace millrace::io
