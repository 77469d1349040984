#include "trainer/run/binary_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/base/status.h"

namespace millrace::trainer {
namespace {

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

// Of a coin that falls on 1 with probability p, in nats.
double Entropy(double p) {
  if (p <= 0 || p >= 1) return 0;
  return -p * std::log(p) - (1 - p) * std::log1p(-p);
}

float Finite(float margin) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return std::clamp(margin, -kMax, kMax);
}

}  // namespace

std::vector<NamedValue> NamedValues(const BinaryMetrics& metrics) {
  return {{"accuracy", metrics.accuracy},
          {"precision", metrics.precision},
          {"recall", metrics.recall},
          {"f1", metrics.f1},
          {"auc", metrics.auc},
          {"logloss", metrics.logloss},
          {"ne", metrics.ne},
          {"calibration", metrics.calibration}};
}

void BinaryMetricsSum::Add(std::span<const float> margins, std::span<const float> labels,
                           std::span<const float> weights) {
  CHECK(labels.size() == margins.size());
  CHECK(weights.empty() || weights.size() == margins.size());
  for (size_t i = 0; i < margins.size(); ++i) {
    if (std::isnan(margins[i])) {
      ++nan_margins_;
    } else {
      AddExample(Finite(margins[i]), labels[i] > 0, weights.empty() ? 1.0f : weights[i]);
    }
  }
}

// With e = exp(-|m|), at most 1: the likelier label has probability 1 / (1 + e) and loss log1p(e),
// the other one e / (1 + e) and loss log1p(e) + |m|.
void BinaryMetricsSum::AddExample(float margin, bool positive, float weight) {
  const bool predicted = margin > 0;
  const double size = std::abs(static_cast<double>(margin));
  const double e = std::exp(-size);
  ++examples_;
  counts_[positive][predicted] += weight;
  loss_ += weight * (std::log1p(e) + (predicted == positive ? 0 : size));
  predicted_ += weight * ((predicted ? 1 : e) / (1 + e));
  auc_.Add(margin, positive, weight);
}

BinaryMetrics BinaryMetricsSum::Compute() {
  const double tn = counts_[0][0], fp = counts_[0][1], fn = counts_[1][0], tp = counts_[1][1];
  const AucSum::Area area = auc_.Compute();
  BinaryMetrics m = {.examples = examples_,
                     .nan_margins = nan_margins_,
                     .weight = tn + fp + fn + tp,
                     .true_positives = tp,
                     .false_positives = fp,
                     .true_negatives = tn,
                     .false_negatives = fn,
                     .auc = area.value,
                     .auc_error = area.error};
  m.accuracy = Ratio(tp + tn, m.weight);
  m.precision = Ratio(tp, tp + fp);
  m.recall = Ratio(tp, tp + fn);
  m.f1 = Ratio(2 * tp, 2 * tp + fp + fn);
  m.logloss = Ratio(loss_, m.weight);
  m.positive_share = Ratio(tp + fn, m.weight);
  m.ne = Ratio(m.logloss, Entropy(m.positive_share));
  m.calibration = Ratio(predicted_, tp + fn);
  return m;
}

void BinaryMetricsSum::Clear() {
  auc_.Clear();
  examples_ = nan_margins_ = 0;
  counts_[0][0] = counts_[0][1] = counts_[1][0] = counts_[1][1] = 0;
  loss_ = predicted_ = 0;
}

}  // namespace millrace::trainer
