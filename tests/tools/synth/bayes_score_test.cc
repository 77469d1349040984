// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/bayes_score.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "io/base/random.h"

namespace millrace::synth {
namespace {

// All pairs of a positive and a negative row, one by one.
double NaiveAuc(const std::vector<std::pair<double, bool>>& rows) {
  double wins = 0, pairs = 0;
  for (const auto& [a, positive] : rows) {
    for (const auto& [b, other_positive] : rows) {
      if (!positive || other_positive) continue;
      wins += a > b ? 1 : a == b ? 0.5 : 0;
      ++pairs;
    }
  }
  return wins / pairs;
}

TEST(BayesScore, AucMatchesAllPairsWithTies) {
  Random random(4);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::pair<double, bool>> rows;
    BayesScore first, second;
    for (int i = 0; i < 300; ++i) {
      const double margin = (static_cast<double>(random.Below(41)) - 20) / 8;
      rows.emplace_back(margin, random.Below(3) == 0);
      (i < 100 ? first : second).Add(margin, rows.back().second);
    }
    first.Merge(second);
    EXPECT_NEAR(first.Auc(), NaiveAuc(rows), 1e-12);
  }
}

TEST(BayesScore, AucOfASingleClassIsUndefined) {
  BayesScore score;
  score.Add(1, true);
  score.Add(2, true);
  EXPECT_EQ(score.Auc(), 0.5);
  EXPECT_EQ(score.BaseLogLoss(), 0);
}

}  // namespace
}  // namespace millrace::synth
