// SPDX-License-Identifier: Apache-2.0
#include "sparse/update_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/base/random.h"
#include "sparse/local_store.h"
#include "sparse/update_options.h"

namespace millrace::sparse {
namespace {

std::vector<double> Gradients() {
  Random random(4);
  std::vector<double> gradients(200);
  for (double& g : gradients) g = random.Uniform() * 2 - 0.8;
  return gradients;
}

TEST(Sgd, SubtractsTheScaledGradient) {
  SgdSlot slot{};
  double w = 0;
  for (const double g : Gradients()) {
    Step(SgdParams{.rate = 0.1f, .l2 = 0.01f}, static_cast<float>(g), slot);
    w -= 0.1 * (g + 0.01 * w);
  }
  EXPECT_NEAR(slot.w, w, 1e-4);
}

TEST(AdaGrad, EqualsItsFormulaInDouble) {
  AdaGradSlot slot{};
  double w = 0, n = 0;
  for (const double g : Gradients()) {
    Step(AdaGradParams{.rate = 0.1f, .l2 = 0, .offset = 1e-6f}, static_cast<float>(g), slot);
    n += g * g;
    w -= 0.1 * g / std::sqrt(n + 1e-6);
  }
  EXPECT_NEAR(slot.w, w, 1e-4);
  EXPECT_NEAR(slot.n, n, 1e-3);
}

// tf.train.AdagradOptimizer: accumulators start at 0.1, acc += g^2, w -= rate g / sqrt(acc).
TEST(AdaGrad, InitialSumOfSquaresIsThatOfTensorFlow) {
  const UpdateOptions options = {
      .rule = Rule::kAdaGrad, .rate = 0.1, .adagrad_epsilon = 0, .adagrad_initial = 0.1};
  for (const uint64_t num_features : {10, 0}) {
    auto store = LocalStore::Create({num_features}, options);
    ASSERT_TRUE(store.ok()) << store.status().message();
    const uint64_t key = 3;
    double w = 0, acc = 0.1;
    float found = 0;
    for (const double g : Gradients()) {
      const auto gradient = static_cast<float>(g);
      ASSERT_TRUE((*store)->Push({&key, 1}, {&gradient, 1}, {}).ok());
      acc += g * g;
      w -= 0.1 * g / std::sqrt(acc);
    }
    ASSERT_TRUE((*store)->Pull({&key, 1}, {&found, 1}).ok());
    EXPECT_NEAR(found, w, 1e-4);
    size_t features = 0;
    (*store)->ForEach([&](uint64_t, std::span<const float>) { ++features; });
    EXPECT_EQ(features, 1u) << "a feature that was never seen has no state";
  }
  EXPECT_EQ(UpdateOptions({.adagrad_epsilon = 0}).Validate().code(), Code::kInvalid);
}

TEST(Ftrl, EqualsItsFormulaInDouble) {
  FtrlSlot slot{};
  double z = 0, n = 0, w = 0;
  const double rate = 0.1, beta = 1, l1 = 0.5, l2 = 0.2;
  for (const double g : Gradients()) {
    Step(FtrlParams{.inverse_rate = 10.0f, .beta = 1, .l1 = 0.5f, .l2 = 0.2f},
         static_cast<float>(g), slot);
    const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / rate;
    z += g - sigma * w;
    n += g * g;
    w = std::abs(z) <= l1 ? 0 : -(z - std::copysign(l1, z)) / ((beta + std::sqrt(n)) / rate + l2);
  }
  EXPECT_NEAR(slot.w, w, 1e-4);
}

TEST(Ftrl, L1KeepsWeakFeaturesAtExactlyZero) {
  FtrlSlot slot{};
  for (int i = 0; i < 10; ++i) {
    Step(FtrlParams{.inverse_rate = 10.0f, .beta = 1, .l1 = 1, .l2 = 0}, i % 2 == 0 ? 0.3f : -0.25f,
         slot);
    EXPECT_EQ(slot.w, 0);
  }
}

TEST(Adam, EqualsItsFormulaInDouble) {
  UpdateOptions options{.rule = Rule::kAdam, .rate = 0.01};
  AdamSlot slot{};
  double w = 0, m = 0, v = 0;
  uint64_t t = 0;
  for (const double g : Gradients()) {
    Step(AdamParamsAt(options, ++t), static_cast<float>(g), slot);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const auto steps = static_cast<double>(t);
    const double mhat = m / (1 - std::pow(0.9, steps)), vhat = v / (1 - std::pow(0.999, steps));
    w -= 0.01 * mhat / (std::sqrt(vhat) + 1e-8);
  }
  EXPECT_NEAR(slot.w, w, 1e-4);
}

}  // namespace
}  // namespace millrace::sparse
