// SPDX-License-Identifier: Apache-2.0
// The scale of a feature's values: the smallest power of two that no |value| so far exceeds.
//
// A store that normalises trains on x / s in place of x, so that a column in metres and the same
// column in kilometres give the same model. Powers of two make every change of units exact: x / s,
// g / s and w = W / s (W: the weight of the normalised value) only change exponents, so that it
// does not matter where on the way a number is scaled.
//
// When a scale grows, the weight w stays if the scale doubles: the margins of all rows stay. A jump
// by more than that shrinks w so that the normalised weight W stays: the new row's margin is then
// no larger than those before, where w times its value could be anything.
//
// A scale is kept as one byte, the exponent of the float: 0 stands for a feature without values.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace::sparse {

using ScaleCode = uint8_t;

inline constexpr ScaleCode kNoScale = 0;
inline constexpr ScaleCode kUnitScale = 127;  // 1
// Beyond these, 7.9e-31 and 1.3e30, the scale stops: gradients (sums of residual * x) and w = W / s
// stay in the range of a float.
inline constexpr int kMaxExponent = 100;
inline constexpr ScaleCode kMinScale = kUnitScale - kMaxExponent,
                           kMaxScale = kUnitScale + kMaxExponent;

// Of the largest |value|, which is finite; 0 has no scale.
inline ScaleCode ScaleFor(float largest) {
  if (largest == 0) return kNoScale;
  constexpr uint32_t kMantissa = 0x7fffffu;
  const uint32_t bits = std::bit_cast<uint32_t>(std::abs(largest));
  return static_cast<ScaleCode>(
      std::clamp<uint32_t>((bits + kMantissa) >> 23, kMinScale, kMaxScale));
}

// The scale itself; 0 for kNoScale.
inline float ScaleValue(ScaleCode code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}
// 1 / scale; of kNoScale: 1.
inline float InverseScale(ScaleCode code) {
  const uint32_t exponent = code == kNoScale ? kUnitScale : 2u * kUnitScale - code;
  return std::bit_cast<float>(exponent << 23);
}

// What a weight w is multiplied by when its scale grows.
inline float GrowthFactor(float from, float to) { return to <= 2 * from ? 1.0f : from / to; }

}  // namespace millrace::sparse
