// SPDX-License-Identifier: Apache-2.0
#include "tools/report/predictions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/base/random.h"

namespace millrace::report {
namespace {

Result<Predictions> Read(const std::string& text) {
  MemoryBudget budget(1 << 20);
  return ReadPredictions(text, "p.csv", budget);
}

TEST(PredictionsTest, BadLinesAreNamed) {
  const std::string header = "label,weight,margin\n";
  EXPECT_EQ(Read(header + "1,1,0.5\n0,2,-inf\n")->rows(), 2u);
  for (const char* line : {"2,1,0", "1,-1,0", "1,1,nan", "1,1", "1,1,0,0", "", "x,1,0", "1,1,"}) {
    const auto bad = Read(header + "1,1,1\n" + line + "\n");
    ASSERT_FALSE(bad.ok()) << line;
    EXPECT_NE(bad.status().message().find("p.csv: line 3: expected "), std::string::npos)
        << bad.status().message();
  }
  EXPECT_FALSE(Read("label,margin\n1,1\n").ok());
  EXPECT_FALSE(Read(header).ok());
  MemoryBudget small(17);
  EXPECT_FALSE(ReadPredictions(header + "1,1,1\n1,1,1\n", "p.csv", small).ok());
}

TEST(PredictionsTest, OnlyTheSameRowsAreComparable) {
  const std::string header = "label,weight,margin\n";
  const auto a = Read(header + "1,1,0.5\n0,1,0.25\n");
  EXPECT_TRUE(AreComparable(*a, *Read(header + "1,1,3\n0,1,-3\n")));
  EXPECT_FALSE(AreComparable(*a, *Read(header + "0,1,3\n1,1,-3\n")));
  EXPECT_FALSE(AreComparable(*a, *Read(header + "1,1,3\n0,2,-3\n")));
  EXPECT_FALSE(AreComparable(*a, *Read(header + "1,1,3\n0,1,-3\n0,1,-3\n")));
}

// The area under the curve, pair by pair.
double NaiveAuc(const Predictions& p) {
  double sum = 0, pairs = 0;
  for (size_t i = 0; i < p.rows(); ++i) {
    for (size_t j = 0; j < p.rows(); ++j) {
      if (!p.labels[i] || p.labels[j]) continue;
      ++pairs;
      sum += p.margins[i] > p.margins[j] ? 1 : p.margins[i] == p.margins[j] ? 0.5 : 0;
    }
  }
  return sum / pairs;
}

double Normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.Uniform())) *
         std::cos(6.283185307179586 * random.Uniform());
}

// Rows whose true log-odds are known, and two models that know them up to noise.
std::pair<Predictions, Predictions> TwoModels(uint64_t seed, size_t rows, double noise_a,
                                              double noise_b) {
  Random random(seed);
  Predictions a, b;
  for (size_t i = 0; i < rows; ++i) {
    const double truth = -1.2 + 1.1 * Normal(random);
    a.labels.push_back(random.Uniform() < 1 / (1 + std::exp(-truth)));
    const double shared = 0.5 * Normal(random);
    a.margins.push_back(static_cast<float>(truth + shared + noise_a * Normal(random)));
    b.margins.push_back(static_cast<float>(truth + shared + noise_b * Normal(random)));
  }
  b.labels = a.labels;
  return {a, b};
}

TEST(PredictionsTest, AucDifferenceIsThatOfAllPairs) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto [a, b] = TwoModels(seed, 200, 0.3, 0.8);
    for (float& margin : a.margins) margin = std::round(margin * 4) / 4;  // ties
    const auto difference = AucDifference(a, b);
    ASSERT_TRUE(difference);
    EXPECT_NEAR(difference->value, NaiveAuc(b) - NaiveAuc(a), 1e-12);
    EXPECT_LT(difference->low, difference->value);
    EXPECT_GT(difference->high, difference->value);
  }
}

TEST(PredictionsTest, EqualPredictionsTie) {
  const auto [a, unused] = TwoModels(1, 100, 0, 1);
  EXPECT_TRUE(LoglossDifference(a, a).is_tie());
  EXPECT_EQ(LoglossDifference(a, a).high, 0);
  EXPECT_TRUE(AucDifference(a, a)->is_tie());
}

TEST(PredictionsTest, WeightsCountAsRepeatedRows) {
  auto [a, b] = TwoModels(3, 400, 0.2, 0.6);
  Predictions heavy_a = a, heavy_b = b, long_a = a, long_b = b;
  for (size_t i = 0; i < a.rows(); ++i) heavy_a.weights.push_back(i < 50 ? 2.0f : 1.0f);
  heavy_b.weights = heavy_a.weights;
  for (size_t i = 0; i < 50; ++i) {
    long_a.labels.push_back(a.labels[i]), long_a.margins.push_back(a.margins[i]);
    long_b.labels.push_back(b.labels[i]), long_b.margins.push_back(b.margins[i]);
  }
  EXPECT_NEAR(LoglossDifference(heavy_a, heavy_b).value, LoglossDifference(long_a, long_b).value,
              1e-12);
  EXPECT_FALSE(AucDifference(heavy_a, heavy_b));
}

// 200 comparisons whose truth is known: in the first half both models are equally good, in the
// other half the second one is worse by a difference that a large sample measures.
TEST(PredictionsTest, TiesAreCalledTiesAndDifferencesAreNot) {
  constexpr size_t kRows = 4000;
  constexpr uint64_t kComparisons = 100;
  const auto [large_a, large_b] = TwoModels(77, 400000, 0.4, 0.7);
  const double true_loss = LoglossDifference(large_a, large_b).value;
  const double true_auc = AucDifference(large_a, large_b)->value;
  int loss_differs = 0, auc_differs = 0, loss_found = 0, auc_found = 0, loss_covers = 0,
      auc_covers = 0;
  for (uint64_t seed = 0; seed < kComparisons; ++seed) {
    const auto [a, b] = TwoModels(1000 + seed, kRows, 0.4, 0.4);
    loss_differs += !LoglossDifference(a, b).is_tie();
    auc_differs += !AucDifference(a, b)->is_tie();
    const auto [c, d] = TwoModels(2000 + seed, kRows, 0.4, 0.7);
    const Difference loss = LoglossDifference(c, d), auc = *AucDifference(c, d);
    loss_found += loss.low > 0;
    auc_found += auc.high < 0;
    loss_covers += loss.low <= true_loss && true_loss <= loss.high;
    auc_covers += auc.low <= true_auc && true_auc <= auc.high;
  }
  // 5 of 100 are expected to be outside of an interval of 95 %; 11 or more are in 1.2 % of cases.
  EXPECT_LE(loss_differs, 11);
  EXPECT_LE(auc_differs, 11);
  EXPECT_GE(loss_found, 95);
  EXPECT_GE(auc_found, 95);
  EXPECT_GE(loss_covers, 88);
  EXPECT_GE(auc_covers, 88);
}

}  // namespace
}  // namespace millrace::report
