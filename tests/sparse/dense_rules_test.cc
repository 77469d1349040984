// SPDX-License-Identifier: Apache-2.0
#include "sparse/dense_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/base/random.h"

namespace millrace::sparse {
namespace {

constexpr DenseRule kRules[] = {DenseRule::kSgd, DenseRule::kMomentum, DenseRule::kAdam};

std::vector<float> RandomNumbers(Random& random, size_t size) {
  std::vector<float> numbers(size);
  for (float& x : numbers) x = static_cast<float>(random.Uniform() * 2 - 1);
  return numbers;
}

// One weight in double, straight from the formulas of the header.
struct Twin {
  double w = 0, m = 0, v = 0;

  void Step(const DenseOptions& o, uint64_t t, double gradient) {
    const double g = gradient + o.weight_decay * w;
    const auto steps = static_cast<double>(t);
    switch (o.rule) {
      case DenseRule::kSgd:
        w -= o.RateAt(t) * g;
        break;
      case DenseRule::kMomentum:
        m = o.momentum * m + g;
        w -= o.RateAt(t) * m;
        break;
      case DenseRule::kAdam:
        m = o.adam_beta1 * m + (1 - o.adam_beta1) * g;
        v = o.adam_beta2 * v + (1 - o.adam_beta2) * g * g;
        w -= o.RateAt(t) * (m / (1 - std::pow(o.adam_beta1, steps))) /
             (std::sqrt(v / (1 - std::pow(o.adam_beta2, steps))) + o.adam_epsilon);
    }
  }
};

TEST(DenseRules, EqualTheirFormulasInDouble) {
  for (const DenseRule rule : kRules) {
    SCOPED_TRACE(DenseRuleName(rule));
    const DenseOptions o{.rule = rule, .weight_decay = 0.01, .decay_every = 20, .decay_factor = .5};
    Random random(1);
    std::vector<float> w = RandomNumbers(random, 37), state(o.state_planes() * w.size());
    std::vector<Twin> twins(w.size());
    for (size_t i = 0; i < w.size(); ++i) twins[i].w = static_cast<double>(w[i]);
    for (uint64_t t = 1; t <= 50; ++t) {
      const std::vector<float> g = RandomNumbers(random, w.size());
      ApplyDense(o, t, g, w, state);
      for (size_t i = 0; i < w.size(); ++i) twins[i].Step(o, t, static_cast<double>(g[i]));
    }
    for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], twins[i].w, 2e-5) << i;
  }
}

TEST(DenseRules, AllInstructionSetsAndPartsGiveTheSameBits) {
  for (const DenseRule rule : kRules) {
    SCOPED_TRACE(DenseRuleName(rule));
    const DenseOptions o{.rule = rule, .weight_decay = 0.003};
    Random random(2);
    const std::vector<float> start = RandomNumbers(random, 101);
    const std::vector<float> g = RandomNumbers(random, start.size());
    std::vector<float> plain = start, plain_state(o.state_planes() * start.size());
    for (uint64_t t = 1; t <= 3; ++t) {
      ApplyDense(o, t, g, plain, plain_state, CpuLevel::kPlain);
    }
    for (const size_t cut : {size_t{0}, size_t{1}, size_t{50}, size_t{101}}) {
      std::vector<float> w = start, state(o.state_planes() * start.size());
      for (uint64_t t = 1; t <= 3; ++t) {
        const std::span<const float> all(g);
        ApplyDensePart(o, t, all.subspan(cut), cut, w, state);
        ApplyDensePart(o, t, all.first(cut), 0, w, state);
      }
      EXPECT_EQ(w, plain) << cut;
      EXPECT_EQ(state, plain_state) << cut;
    }
  }
}

TEST(DenseRules, HugeAndTinyGradientsLeaveFiniteWeightsUnderAdam) {
  const DenseOptions o{.rule = DenseRule::kAdam};
  for (const float g : {0.0f, 1e-30f, 1e15f, -1e15f}) {
    std::vector<float> w = {1.0f}, state(2);
    for (uint64_t t = 1; t <= 10; ++t) ApplyDense(o, t, std::vector<float>{g}, w, state);
    EXPECT_TRUE(std::isfinite(w[0])) << g;
    EXPECT_NEAR(w[0], 1.0, 0.011) << g;
  }
}

}  // namespace
}  // namespace millrace::sparse
