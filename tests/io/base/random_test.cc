// SPDX-License-Identifier: Apache-2.0
#include "io/base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace millrace::io {
namespace {

TEST(Random, IsTheSameForASeedOnEveryMachine) {
  Random random(42);
  EXPECT_EQ(random.Next(), 0x15780b2e0c2ec716u);
  EXPECT_EQ(random.Next(), 0x6104d9866d113a7eu);
}

TEST(Random, BelowIsEvenlySpread) {
  Random random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[random.Below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, UniformStaysInTheHalfOpenUnitInterval) {
  Random random(5);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double u = random.Uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.01);
}

TEST(DeriveSeed, DiffersForEveryStreamAndSubstream) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t stream = 0; stream < 20; ++stream) {
      for (uint64_t sub = 0; sub < 20; ++sub) seeds.insert(DeriveSeed(seed, stream, sub));
    }
  }
  EXPECT_EQ(seeds.size(), 8000u);
}

}  // namespace
}  // namespace millrace::io
