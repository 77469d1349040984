// SPDX-License-Identifier: Apache-2.0
// The metrics of a probabilistic binary classifier on a set of examples.
//
//   margin m = w . x,  p = sigmoid(m) is the predicted probability of label 1;
//   the example is predicted positive if m > 0, that is p > 0.5;  all sums are weighted
//
//   accuracy        (TP + TN) / all
//   precision       TP / (TP + FP)
//   recall          TP / (TP + FN)
//   f1              2 TP / (2 TP + FP + FN)
//   logloss         mean of -ln(probability given to the true label)
//   ne              normalized entropy: logloss / entropy of the set's share of positives. 1 is as
//                   good as always predicting that share, 0 is perfect
//   calibration     sum of p / sum of labels. 1 is right on average, above 1 is too optimistic
//   auc             see AucSum
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace millrace::trainer {

// The area under the ROC curve of scored examples: the probability that a positive scores above a
// negative, ties counted half.
//
//   AUC = sum over pairs (p positive, n negative) of
//         w_p w_n ([m_p > m_n] + [m_p = m_n] / 2) / (P N)
//
// where P and N are the weights of all positives and of all negatives.
//
// Exact while the examples fit into `exact_examples` of 8 bytes each; from then on margins are
// counted in 2^20 buckets, finest around 0 (1.5e-5 wide at margin 0, 6e-5 at 8, 3e-3 at 100).
// A pair within one bucket counts half, so that the result is off by at most
//   error = sum over buckets of (positives in it) (negatives in it) / (2 P N),
// which is reported with it: below 1e-5 for margins spread over some units.
class AucSum {
 public:
  static constexpr size_t kExactExamples = size_t{4} << 20;

  struct Area {
    double value = 0;  // NaN unless there are both positives and negatives
    double error = 0;  // 0: exact
  };

  explicit AucSum(size_t exact_examples = kExactExamples) : exact_examples_(exact_examples) {}

  // A finite margin; weight >= 0.
  void Add(float margin, bool positive, float weight) {
    if (!buckets_.empty()) return Count(margin, positive, weight);
    if (scores_.size() == exact_examples_) return StartCounting(margin, positive, weight);
    scores_.push_back(Packed(margin, positive, weight));
  }

  // The examples of `other` as well.
  void Add(const AucSum& other);

  // Add may follow. Not const: it sorts the stored scores.
  Area Compute();

  void Clear();

 private:
  struct Bucket {
    double negatives = 0, positives = 0;
  };

  static uint64_t Packed(float margin, bool positive, float weight);
  void Count(float margin, bool positive, float weight);
  void CountAll();
  void StartCounting(float margin, bool positive, float weight);

  size_t exact_examples_;
  std::vector<uint64_t> scores_;  // Packed; empty when buckets_ is not
  std::vector<Bucket> buckets_;   // by rising margin
};

// A figure that is not defined is NaN: everything without examples; recall, auc, ne and calibration
// when one class is missing; precision when nothing was predicted positive.
struct BinaryMetrics {
  uint64_t examples = 0;     // without those whose margin is NaN
  uint64_t nan_margins = 0;  // not counted in any other figure
  double weight = 0;         // of the examples; their number where none has a weight

  double true_positives = 0, false_positives = 0, true_negatives = 0, false_negatives = 0;

  double accuracy = 0, precision = 0, recall = 0, f1 = 0;
  double logloss = 0, ne = 0, calibration = 0;
  double positive_share = 0;
  double auc = 0;
  double auc_error = 0;  // auc is off by at most this; 0: exact
};

struct NamedValue {
  std::string_view name;  // a literal
  double value = 0;
};

// accuracy, precision, recall, f1, auc, logloss, ne, calibration: in this order, by these names.
std::vector<NamedValue> NamedValues(const BinaryMetrics& metrics);

// Sums up examples batch by batch. The result does not depend on how they were cut into batches.
class BinaryMetricsSum {
 public:
  explicit BinaryMetricsSum(size_t exact_auc_examples = AucSum::kExactExamples)
      : auc_(exact_auc_examples) {}

  // Labels above 0 are positive. `weights` is empty (all ones) or as long as the others; each is
  // finite and >= 0. An infinite margin counts as the largest finite one.
  void Add(std::span<const float> margins, std::span<const float> labels,
           std::span<const float> weights);

  // The examples of `other` as well.
  void Add(const BinaryMetricsSum& other);

  // Add may follow. Not const: the area under the curve sorts the stored scores.
  BinaryMetrics Compute();

  void Clear();

 private:
  void AddExample(float margin, bool positive, float weight);

  AucSum auc_;
  uint64_t examples_ = 0, nan_margins_ = 0;
  double counts_[2][2] = {};  // [label][prediction]
  double loss_ = 0;
  double predicted_ = 0;  // sum of the probabilities
};

}  // namespace millrace::trainer
