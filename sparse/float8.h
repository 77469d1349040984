// SPDX-License-Identifier: Apache-2.0
// Eight floats as two Float4, for update rules (update_rules.h): each lane has the bits of a float.
#pragma once

#include "sparse/float4.h"

namespace millrace::sparse {

struct Mask8 {
  Mask4 low, high;
};
inline Mask8 operator|(Mask8 a, Mask8 b) { return {a.low | b.low, a.high | b.high}; }

struct Float8 {
  Float4 low, high;
};
inline Float8 operator+(Float8 a, Float8 b) { return {a.low + b.low, a.high + b.high}; }
inline Float8 operator-(Float8 a, Float8 b) { return {a.low - b.low, a.high - b.high}; }
inline Float8 operator*(Float8 a, Float8 b) { return {a.low * b.low, a.high * b.high}; }
inline Float8 operator/(Float8 a, Float8 b) { return {a.low / b.low, a.high / b.high}; }
inline Float8 operator*(float a, Float8 b) { return {a * b.low, a * b.high}; }
inline Float8 operator-(Float8 a) { return {-a.low, -a.high}; }
inline Float8& operator+=(Float8& a, Float8 b) { return a = a + b; }
inline Mask8 operator<=(Float8 a, float b) { return {a.low <= b, a.high <= b}; }
inline Mask8 operator==(Float8 a, float b) { return {a.low == b, a.high == b}; }

inline Float8 Sqrt(Float8 x) { return {Sqrt(x.low), Sqrt(x.high)}; }
inline Float8 Abs(Float8 x) { return {Abs(x.low), Abs(x.high)}; }
inline Float8 CopySign(Float8 size, Float8 sign) {
  return {CopySign(size.low, sign.low), CopySign(size.high, sign.high)};
}
inline Float8 Select(Mask8 condition, Float8 yes, Float8 no) {
  return {Select(condition.low, yes.low, no.low), Select(condition.high, yes.high, no.high)};
}

}  // namespace millrace::sparse
