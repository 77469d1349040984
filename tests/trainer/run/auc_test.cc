#include "trainer/run/auc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "io/base/random.h"

namespace millrace::trainer {
namespace {

struct Scored {
  float margin = 0;
  bool positive = false;
  float weight = 1;
};

AucSum::Area AreaOf(const std::vector<Scored>& examples,
                    size_t exact_examples = AucSum::kExactExamples) {
  AucSum sum(exact_examples);
  for (const Scored& e : examples) sum.Add(e.margin, e.positive, e.weight);
  return sum.Compute();
}

// The definition: every pair.
double NaiveAuc(const std::vector<Scored>& examples) {
  double good = 0, all = 0;
  for (const Scored& p : examples) {
    for (const Scored& n : examples) {
      if (!p.positive || n.positive) continue;
      const double pair = static_cast<double>(p.weight) * n.weight;
      all += pair;
      if (p.margin > n.margin) good += pair;
      if (p.margin == n.margin) good += pair / 2;
    }
  }
  return good / all;
}

// `steps`: how many different margins there are; few make many ties.
std::vector<Scored> RandomExamples(uint64_t seed, size_t count, uint64_t steps, bool weighted) {
  Random random(seed);
  std::vector<Scored> examples(count);
  for (Scored& e : examples) {
    e.margin = (static_cast<float>(random.Below(steps)) / static_cast<float>(steps) - 0.5f) * 12;
    e.positive = random.Uniform() < 1 / (1 + std::exp(-e.margin));
    if (weighted) e.weight = static_cast<float>(random.Below(5)) / 2;
  }
  return examples;
}

TEST(Auc, EqualsTheCountOverAllPairs) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const uint64_t steps = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 100 : uint64_t{1} << 30;
    const auto examples = RandomExamples(seed, 2 + seed * 3, steps, seed % 2 == 1);
    const AucSum::Area area = AreaOf(examples);
    const double naive = NaiveAuc(examples);
    if (std::isnan(naive)) {
      EXPECT_TRUE(std::isnan(area.value));
    } else {
      EXPECT_NEAR(area.value, naive, 1e-12);
    }
    EXPECT_EQ(area.error, 0);
  }
}

TEST(Auc, KnowsTheCornersOfTheScale) {
  EXPECT_EQ(AreaOf({{-1, false}, {1, true}}).value, 1);
  EXPECT_EQ(AreaOf({{1, false}, {-1, true}}).value, 0);
  EXPECT_EQ(AreaOf({{3, false}, {3, true}, {3, true}}).value, 0.5);
}

TEST(Auc, MinusZeroAndZeroAreATie) {
  EXPECT_EQ(AreaOf({{0.0f, false}, {-0.0f, true}}).value, 0.5);
  EXPECT_EQ(AreaOf({{-0.0f, false}, {0.0f, true}}).value, 0.5);
}

TEST(Auc, OrdersMarginsOfEverySize) {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  const float rising[] = {-kMax, -1e4f, -1, -kTiny, 0, kTiny, 1, 1e4f, kMax};
  for (size_t i = 1; i < std::size(rising); ++i) {
    EXPECT_EQ(AreaOf({{rising[i - 1], false}, {rising[i], true}}).value, 1) << rising[i];
    EXPECT_EQ(AreaOf({{rising[i - 1], true}, {rising[i], false}}).value, 0) << rising[i];
  }
}

TEST(Auc, IsNotDefinedWithoutBothClasses) {
  EXPECT_TRUE(std::isnan(AreaOf({}).value));
  EXPECT_TRUE(std::isnan(AreaOf({{1, true}, {2, true}}).value));
  EXPECT_TRUE(std::isnan(AreaOf({{1, false}}).value));
  EXPECT_TRUE(std::isnan(AreaOf({{1, false, 0}, {2, true, 1}}).value)) << "weight 0 is no example";
}

TEST(Auc, AWeightCountsAsThatManyExamples) {
  const double once = AreaOf({{1, true, 3}, {2, false, 2}, {0, false, 1}}).value;
  EXPECT_EQ(once,
            AreaOf({{1, true}, {1, true}, {1, true}, {2, false}, {2, false}, {0, false}}).value);
}

TEST(Auc, StreamingIsWithinTheErrorThatItReports) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto examples = RandomExamples(seed, 20'000, uint64_t{1} << 30, seed % 2 == 1);
    const float scale = seed % 3 == 0 ? 1.0f : seed % 3 == 1 ? 1e-4f : 1e4f;
    for (Scored& e : examples) e.margin *= scale;
    const double exact = AreaOf(examples).value;
    const AucSum::Area streamed = AreaOf(examples, 1000);
    EXPECT_LE(std::abs(streamed.value - exact), streamed.error + 1e-12);
    if (scale == 1.0f) {
      EXPECT_LT(streamed.error, 1e-5);
    }
  }
}

TEST(Auc, StreamingKeepsWhatCameBefore) {
  const auto examples = RandomExamples(7, 1001, 50, true);
  EXPECT_NEAR(AreaOf(examples, 1000).value, NaiveAuc(examples), 1e-12);
  EXPECT_NEAR(AreaOf(examples, 0).value, NaiveAuc(examples), 1e-12);
}

TEST(Auc, GoesOnAfterCompute) {
  for (const size_t exact_examples : {size_t{1000}, size_t{150}}) {
    const auto examples = RandomExamples(11, 300, 50, false);
    AucSum sum(exact_examples);
    for (const Scored& e : examples) {
      sum.Add(e.margin, e.positive, e.weight);
      sum.Compute();
    }
    EXPECT_NEAR(sum.Compute().value, NaiveAuc(examples), 1e-12);
  }
}

TEST(Auc, ClearForgetsEverything) {
  AucSum sum(10);
  for (int i = 0; i < 20; ++i) sum.Add(-1, true, 1);
  sum.Clear();
  sum.Add(-1, false, 1);
  sum.Add(1, true, 1);
  EXPECT_EQ(sum.Compute().value, 1);
  EXPECT_EQ(sum.Compute().error, 0);
}

}  // namespace
}  // namespace millrace::trainer
