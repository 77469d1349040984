// SPDX-License-Identifier: Apache-2.0
#include "io/base/half.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/base/random.h"

namespace millrace {
namespace {

// From the definition of binary16: sign, 5 bits of exponent, 10 of fraction.
double ValueOfF16(uint16_t half) {
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

TEST(Half, EveryFiniteF16ReadsBackTheSame) {
  for (uint32_t half = 0; half < 1 << 16; ++half) {
    if (((half >> 10) & 31) == 31) continue;
    const float number = FromF16(static_cast<uint16_t>(half));
    ASSERT_EQ(double{number}, ValueOfF16(static_cast<uint16_t>(half)));
    ASSERT_EQ(std::signbit(number), (half & 0x8000) != 0);
    ASSERT_EQ(ToF16(number), half);
  }
}

TEST(Half, F16RoundsToTheNearestAndTiesToEven) {
  Random random(1);
  for (int i = 0; i < 1000000; ++i) {
    const auto number = static_cast<float>(
        std::ldexp(random.Uniform() * 2 - 1, static_cast<int>(random.Below(45)) - 28));
    const uint16_t half = ToF16(number);
    const double error = std::abs(ValueOfF16(half) - double{number});
    const auto magnitude = static_cast<uint16_t>(half & 0x7fff);
    const double sign = number < 0 ? -1 : 1;
    for (const int step : {-1, 1}) {
      if (magnitude == 0 && step < 0) continue;
      if (magnitude + step >= 0x7c00) continue;
      const double other =
          std::abs(sign * ValueOfF16(static_cast<uint16_t>(magnitude + step)) - double{number});
      ASSERT_LE(error, other) << number;
      ASSERT_TRUE(error != other || half % 2 == 0) << number;
    }
  }
  EXPECT_EQ(ToF16(65504.f), 0x7bff);
  EXPECT_EQ(ToF16(0x1p-25f), 0);           // a tie between 0 and 2^-24
  EXPECT_EQ(ToF16(-0x1.8p-24f), 0x8002);   // a tie between 2^-24 and 2^-23
  EXPECT_EQ(ToF16(0x1.ffcp-15f), 0x0400);  // a tie with the first normal number
  EXPECT_EQ(ToF16(2049.f), ToF16(2048.f));
}

}  // namespace
}  // namespace millrace
