// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/portable_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "io/base/random.h"

namespace millrace::synth {
namespace {

constexpr double kUlp = 0x1p-52;

TEST(PortableMath, Exp2IsAccurateOverItsWholeRange) {
  Random random(1);
  for (int i = 0; i < 200'000; ++i) {
    const double x = -1022 + random.Uniform() * 2045;
    ASSERT_NEAR(Exp2(x) / std::exp2(x), 1, 4 * kUlp) << x;
  }
}

TEST(PortableMath, Exp2OfWholeNumbersIsExact) {
  for (int x = -1022; x <= 1023; ++x) ASSERT_EQ(Exp2(x), std::ldexp(1.0, x));
}

TEST(PortableMath, Exp2StaysFiniteAtExtremes) {
  EXPECT_EQ(Exp2(1e300), 0x1p1023);
  EXPECT_EQ(Exp2(-1e300), 0x1p-1022);
}

TEST(PortableMath, Log2IsAccurateOverItsWholeRange) {
  Random random(2);
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::exp2(-1000 + random.Uniform() * 2000);
    ASSERT_NEAR(Log2(x), std::log2(x), 4 * kUlp * std::max(1.0, std::abs(std::log2(x)))) << x;
  }
}

// Where the result is small, its relative error counts.
TEST(PortableMath, Log2IsAccurateAroundOne) {
  Random random(3);
  for (int i = 0; i < 200'000; ++i) {
    const double x = 1 + (random.Uniform() - 0.5) * std::exp2(-random.Uniform() * 40);
    if (x == 1) continue;
    ASSERT_NEAR(Log2(x) / std::log2(x), 1, 4 * kUlp) << x;
  }
  EXPECT_EQ(Log2(1), 0);
}

TEST(PortableMath, Log2OfPowersOfTwoIsExact) {
  for (int x = -1022; x <= 1023; ++x) ASSERT_EQ(Log2(std::ldexp(1.0, x)), x);
}

TEST(PortableMath, SigmoidAndLossMatchTheirFormulas) {
  for (double m = -30; m <= 30; m += 0.01) {
    ASSERT_NEAR(Sigmoid(m), 1 / (1 + std::exp(-m)), 1e-15) << m;
    ASSERT_NEAR(LogLoss(m, true), std::log1p(std::exp(-m)), 1e-14) << m;
    ASSERT_NEAR(LogLoss(m, false), std::log1p(std::exp(m)), 1e-14) << m;
  }
}

TEST(PortableMath, LossIsFiniteAtAnyMargin) {
  EXPECT_EQ(LogLoss(-5000, true), 5000);
  EXPECT_EQ(LogLoss(5000, true), 0);
  EXPECT_EQ(LogLoss(5000, false), 5000);
}

// Golden bits: another machine or compiler that gives others would give other data.
TEST(PortableMath, BitsAreFixed) {
  EXPECT_EQ(std::bit_cast<uint64_t>(Exp(-1.25)), 0x3fd25618372a584fu);
  EXPECT_EQ(std::bit_cast<uint64_t>(Log(0.3)), 0xbff34378fcbda721u);
  EXPECT_EQ(std::bit_cast<uint64_t>(Pow(1234.5, -1.05)), 0x3f42983089b74190u);
}

}  // namespace
}  // namespace millrace::synth
