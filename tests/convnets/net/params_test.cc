// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/params.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::convnets {
namespace {

double Deviation(std::span<const float> numbers) {
  double squares = 0;
  for (const float x : numbers) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares / static_cast<double>(numbers.size()));
}

TEST(Params, InitialWeightsHaveTheirSpread) {
  const NetSpec net = *MakeNet({.name = "lenet"});
  Params params(net);
  const size_t fc3 = 4;
  ASSERT_EQ(params.all()[fc3].name, "fc3.weight");
  params.Initialize(Init::kHe, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), std::sqrt(2.0 / 400), 0.001);
  EXPECT_EQ(Deviation(params.weights(fc3 + 1)), 0);
  params.Initialize(Init::kXavier, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), std::sqrt(2.0 / 520), 0.001);
  params.Initialize(Init::kNormal, 1);
  EXPECT_NEAR(Deviation(params.weights(fc3)), 1, 0.02);
  EXPECT_GT(Deviation(params.weights(fc3 + 1)), 0.5);
}

TEST(Params, SeedDecidesAll) {
  const NetSpec net = *MakeNet({.name = "softmax"});
  Params a(net), b(net), c(net);
  a.Initialize(Init::kHe, 1);
  b.Initialize(Init::kHe, 1);
  c.Initialize(Init::kHe, 2);
  EXPECT_TRUE(std::ranges::equal(a.weights(0), b.weights(0)));
  EXPECT_FALSE(std::ranges::equal(a.weights(0), c.weights(0)));
}

}  // namespace
}  // namespace millrace::convnets
