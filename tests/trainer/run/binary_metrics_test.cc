#include "trainer/run/binary_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "io/base/random.h"

namespace millrace::trainer {
namespace {

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

TEST(BinaryMetrics, AreWhatOneCountsByHand) {
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

TEST(BinaryMetrics, OneClassAloneLeavesWhatCompares) {
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

TEST(BinaryMetrics, ClearForgetsEverything) {
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
