// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "convnets/engine/plain_ops.h"

namespace millrace::convnets {
namespace {

TEST(SoftmaxLoss, StableAtHugeScores) {
  const std::vector<float> scores = {1000, -1000, 0, -1e30f, 0, 1e30f};
  const std::vector<int32_t> labels = {0, 2};
  std::vector<float> dscores(6);
  const Outcome outcome = SoftmaxLoss(scores, labels, 1, dscores);
  EXPECT_EQ(outcome.correct, 2u);
  EXPECT_NEAR(outcome.loss, 0, 1e-6);
  for (const float s : dscores) EXPECT_TRUE(std::isfinite(s));
  const Outcome wrong = SoftmaxLoss(scores, std::vector<int32_t>{1, 2}, 1, {});
  EXPECT_NEAR(wrong.loss, 2000, 1e-3);
}

TEST(SoftmaxLoss, EqualScoresCostTheLogOfTheClasses) {
  const std::vector<float> scores(8, 3.0f);
  const Outcome outcome = SoftmaxLoss(scores, std::vector<int32_t>{7}, 1, {});
  EXPECT_NEAR(outcome.loss, std::log(8.0), 1e-6);
}

TEST(Dropout, DropsTheRateAndKeepsTheMean) {
  const std::vector<float> x(100'000, 1.0f);
  std::vector<float> y(x.size()), again(x.size()), other(x.size());
  Dropout(0.3, DropoutSeed(1, 1, 2), 0, x, y);
  size_t dropped = 0;
  double sum = 0;
  for (const float v : y) {
    dropped += v == 0;
    sum += static_cast<double>(v);
  }
  EXPECT_NEAR(static_cast<double>(dropped) / 1e5, 0.3, 0.01);
  EXPECT_NEAR(sum / 1e5, 1, 0.01);
  Dropout(0.3, DropoutSeed(1, 1, 2), 50'000, std::span(x).first(50'000),
          std::span(again).first(50'000));
  EXPECT_TRUE(std::equal(again.begin(), again.begin() + 50'000, y.begin() + 50'000));
  Dropout(0.3, DropoutSeed(1, 2, 2), 0, x, other);
  EXPECT_NE(other, y);
}

TEST(MaxPool, FirstOfEqualOnesTakesTheGradient) {
  const NetSpec net = NetBuilder("p", {1, 3, 3}).MaxPool("pool", {2, 1, 0}).Build();
  const std::vector<float> x(9, 5.0f), dy = {1, 10, 100, 1000};
  std::vector<float> dx(9);
  MaxPoolBackward(net.layers[0], 1, x, dy, dx);
  EXPECT_EQ(dx, (std::vector<float>{1, 10, 0, 100, 1000, 0, 0, 0, 0}));
}

TEST(Lrn, OfALoneChannelIsItsFormula) {
  const NetSpec net = NetBuilder("l", {1, 1, 1}).Lrn("lrn", {5, 2, 0.5f, 0.75f}).Build();
  const std::vector<float> x = {3};
  std::vector<float> y(1);
  LrnForward(net.layers[0], 1, x, y);
  EXPECT_NEAR(y[0], 3 * std::pow(2 + 0.5 / 5 * 9, -0.75), 1e-6);
}

}  // namespace
}  // namespace millrace::convnets
