// SPDX-License-Identifier: Apache-2.0
// 16-bit floats: bf16 (the upper half of a float) and f16 (IEEE 754 binary16). Conversions round to
// the nearest number, ties to the even one.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace {

inline uint16_t ToBf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float FromBf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

constexpr float kMaxF16 = 65504;

// `number` is at most kMaxF16 in magnitude.
inline uint16_t ToF16(float number) {
  constexpr float kSmallestNormal = 0x1p-14f;
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // The smallest f16 is 2^-24.
  const uint32_t half = std::abs(number) < kSmallestNormal
                            ? static_cast<uint32_t>(std::lrint(std::abs(number) * 0x1p24f))
                            : ((magnitude + 0xfff + ((magnitude >> 13) & 1)) >> 13) - (112u << 10);
  return static_cast<uint16_t>(sign | half);
}

// `half` is finite.
inline float FromF16(uint16_t half) {
  // The exponents have other offsets: the product moves them, and makes subnormals normal.
  const float shifted = std::bit_cast<float>((half & 0x7fffu) << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) | (half & 0x8000u) << 16);
}

}  // namespace millrace
