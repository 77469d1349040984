// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/paired_losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/base/random.h"

namespace millrace::trainer {
namespace {

// The sum of twelve uniform numbers is nearly normal.
double Normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.Uniform();
  return sum;
}

using Losses = std::vector<std::vector<double>>;

void AddAll(const Losses& losses, std::span<const float> weights, PairedLosses& pairs) {
  std::vector<std::span<const double>> views(losses.begin(), losses.end());
  pairs.Add(views, weights);
}

TEST(PairedLosses, MeanAndErrorAreThoseOfTheDifferences) {
  Random random(1);
  Losses losses(3, std::vector<double>(500));
  for (auto& own : losses) {
    for (double& loss : own) loss = random.Uniform();
  }
  PairedLosses pairs(3);
  AddAll(losses, {}, pairs);
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      double mean = 0, squares = 0;
      for (size_t r = 0; r < 500; ++r) mean += (losses[a][r] - losses[b][r]) / 500;
      for (size_t r = 0; r < 500; ++r) {
        squares += std::pow(losses[a][r] - losses[b][r] - mean, 2);
      }
      EXPECT_NEAR(pairs.Of(a, b).mean, mean, 1e-12);
      EXPECT_NEAR(pairs.Of(a, b).error, std::sqrt(squares / 499 / 500), 1e-12);
    }
  }
}

TEST(PairedLosses, AWeightOfTwoCountsTwiceAndOfZeroNot) {
  PairedLosses pairs(2);
  AddAll({{1, 2, 9}, {0, 0, 0}}, std::vector<float>{2, 1, 0}, pairs);
  EXPECT_NEAR(pairs.Of(0, 1).mean, 4.0 / 3, 1e-12);
  EXPECT_NEAR(pairs.Of(1, 0).mean, -4.0 / 3, 1e-12);
}

TEST(PairedLosses, NoRowsGiveNoNumber) {
  const PairedLosses pairs(2);
  EXPECT_TRUE(std::isnan(pairs.Of(0, 1).mean));
  EXPECT_TRUE(std::isnan(pairs.Of(0, 1).error));
  EXPECT_EQ(pairs.Of(1, 1).mean, 0);
}

TEST(PairedLosses, FactorsAreThoseOfTheNormalDistribution) {
  EXPECT_NEAR(SimultaneousFactor(2), 1.959964, 1e-5);
  EXPECT_NEAR(SimultaneousFactor(8), 3.124, 1e-3);  // 0.05 / 56 in each tail
  EXPECT_NEAR(SimultaneousFactor(1), 1.959964, 1e-5);
}

// Rows with losses as different as those of clicks: the models have most of them in common, and
// `better` is what the first model has less than the others.
bool CallsATie(uint64_t seed, size_t models, double better) {
  constexpr size_t kRows = 2000;
  Random random(seed);
  Losses losses(models, std::vector<double>(kRows));
  for (size_t r = 0; r < kRows; ++r) {
    const double common = std::exp(Normal(random) - 1);
    for (size_t m = 0; m < models; ++m) {
      losses[m][r] = common * (1 + 0.05 * Normal(random)) - (m == 0 ? better : 0);
    }
  }
  PairedLosses pairs(models);
  AddAll(losses, {}, pairs);
  size_t best = 0;
  for (size_t m = 1; m < models; ++m) {
    if (pairs.Of(m, best).mean < 0) best = m;
  }
  for (size_t m = 0; m < models; ++m) {
    const auto [mean, error] = pairs.Of(m, best);
    if (m != best && mean > SimultaneousFactor(models) * error) return false;
  }
  return true;
}

// With models that are equal the rule is wrong in at most 5 % of sweeps (10 of 200; the bounds
// below leave room for 3 standard errors of that count, which is 3.1), although the best one is
// chosen after the fact. The losses of a difference vary by 0.05 * sqrt(2) * (mean square of
// `common`, 1.0) = 0.07, so the standard error over 2,000 rows is 0.0016: a difference of 0.0095 is
// six of them.
TEST(TieRule, EqualModelsAreTiesInNinetyFivePercentOfComparisons) {
  size_t wrong = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) wrong += !CallsATie(seed, 2, 0);
  EXPECT_LE(wrong, 19u);
  EXPECT_GE(wrong, 2u);  // it is no rule that calls everything a tie
}

TEST(TieRule, TheBestOfEightEqualModelsIsNotCalledBetter) {
  size_t wrong = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) wrong += !CallsATie(1000 + seed, 8, 0);
  EXPECT_LE(wrong, 19u);
}

TEST(TieRule, ModelsThatDifferAreNoTies) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !CallsATie(2000 + seed, 2, 0.0095);
  EXPECT_GE(found, 198u);
  found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !CallsATie(3000 + seed, 8, 0.0095);
  EXPECT_GE(found, 190u);
}

// The power in between: a difference of 1.96 standard errors is found half of the time.
TEST(TieRule, ADifferenceAtTheBoundIsFoundHalfOfTheTime) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !CallsATie(4000 + seed, 2, 0.0031);
  EXPECT_GE(found, 70u);
  EXPECT_LE(found, 130u);
}

}  // namespace
}  // namespace millrace::trainer
