// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/binary_metrics.h"

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

TEST(Auc, ClearRemovesEverything) {
  AucSum sum(10);
  for (int i = 0; i < 20; ++i) sum.Add(-1, true, 1);
  sum.Clear();
  sum.Add(-1, false, 1);
  sum.Add(1, true, 1);
  EXPECT_EQ(sum.Compute().value, 1);
  EXPECT_EQ(sum.Compute().error, 0);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;

BinaryMetrics MetricsOf(const Floats& margins, const Floats& labels, const Floats& weights = {}) {
  BinaryMetricsSum sum;
  sum.Add(margins, labels, weights);
  return sum.Compute();
}

// The margin whose probability is p.
float Logit(double p) { return static_cast<float>(std::log(p / (1 - p))); }

TEST(BinaryMetrics, EqualHandComputedValues) {
  // Probabilities .9 .6 .2 | .7 .4 .1 .1 .3 of three positives and five negatives.
  const Floats margins = {Logit(.9), Logit(.6), Logit(.2), Logit(.7),
                          Logit(.4), Logit(.1), Logit(.1), Logit(.3)};
  const BinaryMetrics m = MetricsOf(margins, {1, 1, 1, 0, 0, 0, 0, 0});
  EXPECT_EQ(m.examples, 8u);
  EXPECT_EQ(m.weight, 8);
  EXPECT_EQ(m.true_positives, 2);
  EXPECT_EQ(m.false_positives, 1);
  EXPECT_EQ(m.false_negatives, 1);
  EXPECT_EQ(m.true_negatives, 4);
  EXPECT_DOUBLE_EQ(m.accuracy, 6.0 / 8);
  EXPECT_DOUBLE_EQ(m.precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.recall, 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.f1, 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.positive_share, 3.0 / 8);
  EXPECT_DOUBLE_EQ(m.auc, (5 + 4 + 2) / 15.0);
  EXPECT_EQ(m.auc_error, 0);
  EXPECT_NEAR(m.logloss, 0.56347730, 1e-7);          // -ln(.9*.6*.2 * .3*.6*.9*.9*.7) / 8
  EXPECT_NEAR(m.ne, 0.56347730 / 0.66156324, 1e-7);  // entropy of 3/8
  EXPECT_NEAR(m.calibration, 3.3 / 3, 1e-6);
}

TEST(BinaryMetrics, PrecisionIsNotAccuracy) {
  const BinaryMetrics m = MetricsOf({1, 1, -1, -1, -1, -1}, {1, 0, 0, 0, 0, 1});
  EXPECT_DOUBLE_EQ(m.accuracy, 4.0 / 6);
  EXPECT_DOUBLE_EQ(m.precision, 1.0 / 2);
}

TEST(BinaryMetrics, AZeroMarginIsPredictedNegative) {
  const BinaryMetrics m = MetricsOf({0, 0, -0.0f}, {1, 0, 0});
  EXPECT_EQ(m.true_negatives, 2);
  EXPECT_EQ(m.false_negatives, 1);
  EXPECT_DOUBLE_EQ(m.logloss, std::log(2));
}

TEST(BinaryMetrics, MinusOneIsANegativeLabel) {
  EXPECT_EQ(MetricsOf({-1, 1}, {-1, 1}).accuracy, 1);
}

TEST(BinaryMetrics, LoglossIsFiniteAtAnyMargin) {
  EXPECT_DOUBLE_EQ(MetricsOf({-1e4f}, {1}).logloss, 1e4);
  EXPECT_DOUBLE_EQ(MetricsOf({1e4f}, {0}).logloss, 1e4);
  EXPECT_EQ(MetricsOf({1e4f, -1e4f}, {1, 0}).logloss, 0);
  EXPECT_GT(MetricsOf({40}, {1}).logloss, 4e-18) << "tiny losses are not lost";
  for (const float margin : {kInfinity, -kInfinity}) {
    const BinaryMetrics m = MetricsOf({margin, margin}, {1, 0});
    EXPECT_TRUE(std::isfinite(m.logloss));
    EXPECT_EQ(m.auc, 0.5);
  }
}

TEST(BinaryMetrics, NanMarginsAreCountedAndLeftOut) {
  const BinaryMetrics with = MetricsOf({kNan, 1, kNan, -2, 0.5f}, {0, 1, 1, 0, 0});
  const BinaryMetrics without = MetricsOf({1, -2, 0.5f}, {1, 0, 0});
  EXPECT_EQ(with.nan_margins, 2u);
  EXPECT_EQ(with.examples, 3u);
  EXPECT_EQ(with.logloss, without.logloss);
  EXPECT_EQ(with.auc, without.auc);
  EXPECT_EQ(with.positive_share, without.positive_share);
}

TEST(BinaryMetrics, WithoutExamplesNothingIsDefined) {
  const BinaryMetrics m = BinaryMetricsSum().Compute();
  EXPECT_EQ(m.examples, 0u);
  for (const NamedValue& metric : NamedValues(m))
    EXPECT_TRUE(std::isnan(metric.value)) << metric.name;
}

TEST(BinaryMetrics, SingleClassLeavesComparisonsUndefined) {
  const BinaryMetrics negatives = MetricsOf({-1, 1}, {0, 0});
  EXPECT_DOUBLE_EQ(negatives.accuracy, 0.5);
  EXPECT_EQ(negatives.precision, 0);
  EXPECT_EQ(negatives.f1, 0);
  EXPECT_TRUE(std::isnan(negatives.recall));
  EXPECT_TRUE(std::isnan(negatives.auc));
  EXPECT_TRUE(std::isnan(negatives.ne));
  EXPECT_TRUE(std::isnan(negatives.calibration));
  const BinaryMetrics positives = MetricsOf({-1, -2}, {1, 1});
  EXPECT_EQ(positives.recall, 0);
  EXPECT_TRUE(std::isnan(positives.precision));
  EXPECT_TRUE(std::isnan(positives.auc));
  EXPECT_TRUE(std::isnan(positives.ne));
}

TEST(BinaryMetrics, PredictingTheBaseRateHasNormalizedEntropyOne) {
  const BinaryMetrics m = MetricsOf(Floats(4, Logit(.25)), {1, 0, 0, 0});
  EXPECT_NEAR(m.ne, 1, 1e-7);
  EXPECT_NEAR(m.calibration, 1, 1e-7);
}

TEST(BinaryMetrics, AWeightCountsAsThatManyExamples) {
  const BinaryMetrics weighted = MetricsOf({1, -1, 0.3f}, {1, 1, 0}, {3, 1, 2});
  const BinaryMetrics repeated = MetricsOf({1, 1, 1, -1, 0.3f, 0.3f}, {1, 1, 1, 1, 0, 0});
  EXPECT_EQ(weighted.examples, 3u);
  EXPECT_EQ(weighted.weight, 6);
  const auto a = NamedValues(weighted), b = NamedValues(repeated);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i].value, b[i].value, 1e-14) << a[i].name;
}

// The plain formulas, in another form than the code's.
struct Naive {
  double logloss = 0, predicted = 0, right = 0, positives = 0, weight = 0;
};

Naive NaiveSums(const Floats& margins, const Floats& labels, const Floats& weights) {
  Naive sums;
  for (size_t i = 0; i < margins.size(); ++i) {
    const long double p = 1 / (1 + std::exp(-static_cast<long double>(margins[i])));
    const double w = weights.empty() ? 1 : weights[i];
    sums.logloss -= w * static_cast<double>(std::log(labels[i] > 0 ? p : 1 - p));
    sums.predicted += w * static_cast<double>(p);
    sums.right += w * ((p > 0.5) == (labels[i] > 0));
    sums.positives += w * (labels[i] > 0);
    sums.weight += w;
  }
  return sums;
}

TEST(BinaryMetrics, EqualTheFormulasOnRandomSets) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Floats margins, labels, weights;
    for (size_t i = 0; i < 20 + seed * 10; ++i) {
      margins.push_back(static_cast<float>(random.Uniform() * 16 - 8));
      labels.push_back(static_cast<float>(random.Below(2)));
      if (seed % 2 == 1) weights.push_back(static_cast<float>(random.Uniform() * 3));
    }
    const BinaryMetrics m = MetricsOf(margins, labels, weights);
    const Naive naive = NaiveSums(margins, labels, weights);
    EXPECT_NEAR(m.logloss, naive.logloss / naive.weight, 1e-12);
    EXPECT_NEAR(m.calibration, naive.predicted / naive.positives, 1e-12);
    EXPECT_NEAR(m.accuracy, naive.right / naive.weight, 1e-12);
    EXPECT_NEAR(m.positive_share, naive.positives / naive.weight, 1e-12);
  }
}

TEST(BinaryMetrics, DoNotDependOnTheBatches) {
  Random random(5);
  Floats margins, labels;
  for (int i = 0; i < 1000; ++i) {
    margins.push_back(static_cast<float>(random.Uniform() * 8 - 4));
    labels.push_back(static_cast<float>(random.Below(2)));
  }
  BinaryMetricsSum sum;
  for (size_t begin = 0, size = 0; begin < margins.size(); begin += size, ++size) {
    const size_t count = std::min(size, margins.size() - begin);
    sum.Add(std::span(margins).subspan(begin, count), std::span(labels).subspan(begin, count), {});
  }
  const auto whole = NamedValues(MetricsOf(margins, labels)), parts = NamedValues(sum.Compute());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].value, parts[i].value);
}

TEST(BinaryMetrics, SumsOfPartsAreTheSumOfAll) {
  // Both parts exact, one of them counted in buckets, both of them.
  for (const auto& [first, second] :
       {std::pair<size_t, size_t>{1000, 1000}, {100, 1000}, {1000, 100}, {100, 100}}) {
    const bool exact = first == 1000 && second == 1000;
    BinaryMetricsSum whole(exact ? 1000 : 100), a(first), b(second);
    const std::vector<Scored> examples = RandomExamples(first + 7 * second, 600, 50, true);
    for (size_t i = 0; i < examples.size(); ++i) {
      const float label = examples[i].positive ? 1 : 0;
      for (BinaryMetricsSum* sum : {&whole, i < 300 ? &a : &b}) {
        sum->Add({&examples[i].margin, 1}, {&label, 1}, {&examples[i].weight, 1});
      }
    }
    a.Add(b);
    const BinaryMetrics all = whole.Compute(), parts = a.Compute();
    EXPECT_EQ(parts.examples, 600u);
    EXPECT_NEAR(parts.weight, all.weight, 1e-6);
    const auto expected = NamedValues(all), found = NamedValues(parts);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i].value, expected[i].value, 1e-9) << expected[i].name;
    }
  }
}

TEST(BinaryMetrics, ClearRemovesEverything) {
  BinaryMetricsSum sum;
  sum.Add(Floats{kNan, 3, -2}, Floats{1, 0, 1}, {});
  sum.Clear();
  sum.Add(Floats{1, -1}, Floats{1, 0}, {});
  const BinaryMetrics m = sum.Compute();
  EXPECT_EQ(m.examples, 2u);
  EXPECT_EQ(m.nan_margins, 0u);
  EXPECT_EQ(m.accuracy, 1);
  EXPECT_EQ(m.auc, 1);
  EXPECT_DOUBLE_EQ(m.logloss, std::log1p(std::exp(-1.0)));
}

}  // namespace

}  // namespace millrace::trainer
