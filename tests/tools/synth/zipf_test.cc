// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/zipf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "io/base/random.h"

namespace millrace::synth {
namespace {

std::vector<double> ExactShares(uint64_t n, double exponent) {
  std::vector<double> shares(n);
  for (uint64_t k = 0; k < n; ++k) shares[k] = std::pow(static_cast<double>(k + 1), -exponent);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= total;
  return shares;
}

TEST(ZipfBuckets, CoverEveryRankOnce) {
  for (const uint64_t n :
       {1ul, 2ul, 255ul, 256ul, 257ul, 1000ul, 4096ul, 33'762'578ul, 1ul << 62}) {
    SCOPED_TRACE(n);
    uint64_t next = 0;
    for (const ZipfBucket& bucket : ZipfBuckets(n, 1.05)) {
      ASSERT_EQ(bucket.first, next);
      ASSERT_GE(bucket.width, 1u);
      next += bucket.width;
    }
    EXPECT_EQ(next, n);
  }
}

TEST(ZipfBuckets, SharesAreThoseOfTheLaw) {
  for (const double exponent : {0.0, 0.8, 1.0, 1.05, 2.0}) {
    for (const uint64_t n : {1ul, 10ul, 300ul, 100'000ul}) {
      SCOPED_TRACE(testing::Message() << exponent << " " << n);
      const std::vector<double> exact = ExactShares(n, exponent);
      for (const ZipfBucket& bucket : ZipfBuckets(n, exponent)) {
        const auto begin = exact.begin() + static_cast<ptrdiff_t>(bucket.first);
        const double expected =
            std::accumulate(begin, begin + static_cast<ptrdiff_t>(bucket.width), 0.0);
        ASSERT_NEAR(bucket.share / expected, 1, 2e-5) << bucket.first;
      }
    }
  }
}

TEST(ZipfBuckets, AFieldOfMillionsNeedsHundredsOfBuckets) {
  EXPECT_LT(ZipfBuckets(10'000'000, 1.05).size(), 500u);
}

// Chi-squared: the sum of (seen - expected)^2 / expected has mean and variance df and 2 df.
TEST(AliasTable, DrawsFollowTheShares) {
  const std::vector<ZipfBucket> buckets = ZipfBuckets(100'000, 1.05);
  std::vector<double> shares;
  for (const ZipfBucket& bucket : buckets) shares.push_back(bucket.share);
  const AliasTable table(shares);
  constexpr int kDraws = 4'000'000;
  std::vector<int> seen(shares.size());
  Random random(5);
  for (int i = 0; i < kDraws; ++i) ++seen[table.Pick(random.Next())];
  double chi_squared = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double expected = shares[i] * kDraws;
    chi_squared += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  const auto degrees = static_cast<double>(shares.size() - 1);
  EXPECT_NEAR(chi_squared, degrees, 5 * std::sqrt(2 * degrees));
}

TEST(AliasTable, OneShareIsAlwaysPicked) {
  const std::vector<double> shares = {1.0};
  const AliasTable table(shares);
  for (const uint64_t random : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}})
    EXPECT_EQ(table.Pick(random), 0u);
}

TEST(AliasTable, ZeroShareIsNeverPicked) {
  const std::vector<double> shares = {0.5, 0, 0.5};
  const AliasTable table(shares);
  Random random(6);
  for (int i = 0; i < 100'000; ++i) ASSERT_NE(table.Pick(random.Next()), 1u);
}

TEST(Scatter, IsABijection) {
  for (uint64_t n = 1; n < 600; ++n) {
    SCOPED_TRACE(n);
    const Scatter scatter(n, 1000 + n);
    std::vector<bool> taken(n);
    for (uint64_t rank = 0; rank < n; ++rank) {
      const uint64_t place = scatter(rank);
      ASSERT_LT(place, n);
      ASSERT_FALSE(taken[place]);
      taken[place] = true;
    }
  }
}

TEST(Scatter, PopularRanksAreSpreadOverTheRange) {
  constexpr uint64_t n = 1'000'003;
  const Scatter scatter(n, 9);
  int tenths[10] = {};
  for (uint64_t rank = 0; rank < 10'000; ++rank) ++tenths[scatter(rank) * 10 / n];
  for (const int tenth : tenths) EXPECT_NEAR(tenth, 1000, 150);
}

TEST(Scatter, SeedsDiffer) {
  const Scatter a(1'000'000, 1), b(1'000'000, 2);
  int same = 0;
  for (uint64_t rank = 0; rank < 1000; ++rank) same += a(rank) == b(rank) ? 1 : 0;
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace millrace::synth
