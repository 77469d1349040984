// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/binary_metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "io/base/status.h"

namespace millrace::trainer {
namespace {

constexpr size_t kBuckets = size_t{1} << 20;
constexpr double kSoftness = 8;  // margins up to about this get half of the buckets

constexpr uint32_t kSign = 0x8000'0000u;

// A packed score, from the top: 32 bits that rise with the margin, the label, 31 bits of the weight
// (a float without its sign, which is never set).
uint32_t OrderedBits(float margin) {
  const auto bits = std::bit_cast<uint32_t>(margin + 0.0f);  // -0 becomes +0: they are a tie
  return bits & kSign ? ~bits : bits | kSign;
}

uint32_t MarginBits(uint64_t score) { return static_cast<uint32_t>(score >> 32); }
bool IsPositive(uint64_t score) { return (score & kSign) != 0; }
float Weight(uint64_t score) { return std::bit_cast<float>(static_cast<uint32_t>(score) & ~kSign); }

float Margin(uint64_t score) {
  const uint32_t ordered = MarginBits(score);
  return std::bit_cast<float>(ordered & kSign ? ordered & ~kSign : ~ordered);
}

// m / (8 + |m|) is in (-1, 1) and rises with m.
size_t BucketOf(float margin) {
  const double place = margin / (kSoftness + std::abs(static_cast<double>(margin)));
  const auto bucket = static_cast<size_t>((place + 1) * (kBuckets / 2));
  return std::min(bucket, kBuckets - 1);
}

// Radix sort by margin, 11 bits a pass from the lowest.
constexpr int kDigitBits = 11, kPasses = 3;
constexpr size_t kDigits = size_t{1} << kDigitBits;

size_t Digit(uint64_t score, int pass) {
  return MarginBits(score) >> (pass * kDigitBits) & (kDigits - 1);
}

void SortPass(const std::vector<uint64_t>& from, std::vector<uint64_t>& to, int pass) {
  std::array<size_t, kDigits> next = {};
  for (const uint64_t score : from) ++next[Digit(score, pass)];
  size_t begin = 0;
  for (size_t& place : next) begin += std::exchange(place, begin);
  for (const uint64_t score : from) to[next[Digit(score, pass)]++] = score;
}

void SortByMargin(std::vector<uint64_t>& scores) {
  std::vector<uint64_t> other(scores.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    SortPass(scores, other, pass);
    scores.swap(other);
  }
}

// Goes up through groups of equal margin.
struct PairCounter {
  double positives = 0, negatives = 0;  // so far
  double ordered = 0, tied = 0;         // weights of pairs: negative below positive, equal

  void AddGroup(double group_positives, double group_negatives) {
    ordered += group_positives * negatives;
    tied += group_positives * group_negatives;
    positives += group_positives;
    negatives += group_negatives;
  }

  double Share(double pairs) const {
    const double all = positives * negatives;
    return all > 0 ? pairs / all : std::numeric_limits<double>::quiet_NaN();
  }
};

PairCounter CountSorted(const std::vector<uint64_t>& scores) {
  PairCounter pairs;
  for (size_t i = 0; i < scores.size();) {
    const uint32_t margin = MarginBits(scores[i]);
    double weights[2] = {0, 0};
    for (; i < scores.size() && MarginBits(scores[i]) == margin; ++i) {
      weights[IsPositive(scores[i])] += Weight(scores[i]);
    }
    pairs.AddGroup(weights[1], weights[0]);
  }
  return pairs;
}

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

// The entropy of a binary variable that is 1 with probability p, in nats.
double Entropy(double p) {
  if (p <= 0 || p >= 1) return 0;
  return -p * std::log(p) - (1 - p) * std::log1p(-p);
}

float Finite(float margin) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return std::clamp(margin, -kMax, kMax);
}

}  // namespace

uint64_t AucSum::Packed(float margin, bool positive, float weight) {
  const uint32_t low = std::bit_cast<uint32_t>(weight) & ~kSign;
  return uint64_t{OrderedBits(margin)} << 32 | (positive ? kSign : 0) | low;
}

void AucSum::Count(float margin, bool positive, float weight) {
  Bucket& bucket = buckets_[BucketOf(margin)];
  (positive ? bucket.positives : bucket.negatives) += weight;
}

void AucSum::CountAll() {
  buckets_.resize(kBuckets);
  for (const uint64_t score : scores_) Count(Margin(score), IsPositive(score), Weight(score));
  scores_ = {};
}

void AucSum::StartCounting(float margin, bool positive, float weight) {
  CountAll();
  Count(margin, positive, weight);
}

void AucSum::Add(const AucSum& other) {
  for (const uint64_t score : other.scores_) {
    Add(Margin(score), IsPositive(score), Weight(score));
  }
  if (other.buckets_.empty()) return;
  if (buckets_.empty()) CountAll();
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets_[i].negatives += other.buckets_[i].negatives;
    buckets_[i].positives += other.buckets_[i].positives;
  }
}

AucSum::Area AucSum::Compute() {
  if (buckets_.empty()) {
    SortByMargin(scores_);
    const PairCounter pairs = CountSorted(scores_);
    return {.value = pairs.Share(pairs.ordered + pairs.tied / 2), .error = 0};
  }
  PairCounter pairs;
  for (const Bucket& bucket : buckets_) pairs.AddGroup(bucket.positives, bucket.negatives);
  return {.value = pairs.Share(pairs.ordered + pairs.tied / 2),
          .error = pairs.Share(pairs.tied / 2)};
}

void AucSum::Clear() {
  scores_.clear();
  buckets_ = {};
}

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

void BinaryMetricsSum::Add(const BinaryMetricsSum& other) {
  auc_.Add(other.auc_);
  examples_ += other.examples_;
  nan_margins_ += other.nan_margins_;
  for (size_t label = 0; label < 2; ++label) {
    for (size_t guess = 0; guess < 2; ++guess) counts_[label][guess] += other.counts_[label][guess];
  }
  loss_ += other.loss_;
  predicted_ += other.predicted_;
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
