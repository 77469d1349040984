// SPDX-License-Identifier: Apache-2.0
// Four floats in a vector of the compiler (SSE2, which every x86-64 has), and the functions of
// update rules for one float and for four. Both give the same bits.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::sparse {

using Float4 = float __attribute__((vector_size(16)));
using Mask4 = int32_t __attribute__((vector_size(16)));

inline float Sqrt(float x) { return std::sqrt(x); }
inline float Abs(float x) { return std::abs(x); }
inline float CopySign(float size, float sign) { return std::copysign(size, sign); }
inline float Select(bool condition, float yes, float no) { return condition ? yes : no; }

inline Float4 Sqrt(Float4 x) {
#if defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  return Float4{std::sqrt(x[0]), std::sqrt(x[1]), std::sqrt(x[2]), std::sqrt(x[3])};
#endif
}

constexpr int32_t kSignBit = INT32_MIN;

inline Float4 Abs(Float4 x) { return (Float4)((Mask4)x & ~kSignBit); }
inline Float4 CopySign(Float4 size, Float4 sign) {
  return (Float4)(((Mask4)size & ~kSignBit) | ((Mask4)sign & kSignBit));
}
inline Float4 Select(Mask4 condition, Float4 yes, Float4 no) {
  return (Float4)((condition & (Mask4)yes) | (~condition & (Mask4)no));
}

inline Float4 Load4(const float* from) {
  Float4 x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void Store4(float* to, Float4 x) { std::memcpy(to, &x, sizeof x); }

}  // namespace millrace::sparse
