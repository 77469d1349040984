// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/paired_auc.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/base/random.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::trainer {
namespace {

double Normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.Uniform();
  return sum;
}

struct Rows {
  std::vector<float> margins[2], labels, weights;
};

// Two models that see the same signal, with noise of their own.
Rows MakeRows(uint64_t seed, size_t count, double signal_a, double signal_b,
              bool weighted = false) {
  Random random(seed);
  Rows rows;
  for (size_t r = 0; r < count; ++r) {
    const bool positive = random.Below(4) == 0;
    const double common = Normal(random);
    rows.labels.push_back(positive ? 1.0f : 0.0f);
    const double signal[] = {signal_a, signal_b};
    for (size_t m = 0; m < 2; ++m) {
      const double margin = common + 0.3 * Normal(random) + (positive ? signal[m] : 0);
      rows.margins[m].push_back(static_cast<float>(std::round(20 * margin) / 20));  // with ties
    }
    if (weighted) rows.weights.push_back(static_cast<float>(random.Below(3)));
  }
  return rows;
}

void AddAll(const Rows& rows, PairedAuc& auc) {
  const std::span<const float> margins[] = {rows.margins[0], rows.margins[1]};
  auc.Add(margins, rows.labels, rows.weights);
}

TEST(PairedAuc, TheDifferenceIsThatOfTheAucs) {
  for (const bool weighted : {false, true}) {
    const Rows rows = MakeRows(3, 700, 0.5, 0.9, weighted);
    PairedAuc paired(2);
    AddAll(rows, paired);
    double auc[2];
    for (size_t m = 0; m < 2; ++m) {
      BinaryMetricsSum sum;
      sum.Add(rows.margins[m], rows.labels, rows.weights);
      auc[m] = sum.Compute().auc;
    }
    const auto against = paired.Against(0);
    EXPECT_EQ(against[0].mean, 0);
    EXPECT_EQ(against[0].error, 0);
    EXPECT_NEAR(against[1].mean, auc[1] - auc[0], 1e-12);
    EXPECT_GT(against[1].error, 0);
  }
}

// 200 comparisons of equal models: 95 % of the intervals contain 0, give or take three standard
// errors of that count; and of models that differ, few do.
TEST(PairedAuc, IntervalsHoldTheTruthAsOftenAsTheySay) {
  size_t wrong = 0, found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PairedAuc equal(2), other(2);
    AddAll(MakeRows(seed, 600, 0.8, 0.8), equal);
    AddAll(MakeRows(1000 + seed, 600, 0.8, 1.1), other);
    const auto a = equal.Against(0)[1], b = other.Against(0)[1];
    wrong += std::abs(a.mean) > 1.96 * a.error;
    found += b.mean > 1.96 * b.error;
  }
  EXPECT_LE(wrong, 19u);
  EXPECT_GE(wrong, 2u);
  EXPECT_GE(found, 195u);
}

TEST(PairedAuc, WhatIsNotDefinedIsNaN) {
  PairedAuc small(2, 100);
  AddAll(MakeRows(1, 60, 1, 1), small);  // 120 margins
  EXPECT_TRUE(std::isnan(small.Against(0)[1].mean));
  PairedAuc one_class(2);
  Rows rows = MakeRows(1, 60, 1, 1);
  std::fill(rows.labels.begin(), rows.labels.end(), 0.0f);
  AddAll(rows, one_class);
  EXPECT_TRUE(std::isnan(one_class.Against(0)[1].mean));
  PairedAuc no_number(2);
  rows = MakeRows(1, 60, 1, 1);
  rows.margins[1][7] = std::nanf("");
  AddAll(rows, no_number);
  EXPECT_TRUE(std::isnan(no_number.Against(0)[1].mean));
}

}  // namespace
}  // namespace millrace::trainer
