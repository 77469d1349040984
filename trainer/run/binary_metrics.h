// How good a probabilistic binary classifier is on a set of examples, each figure under its right
// name.
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
//   auc             see auc.h
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/run/auc.h"

namespace millrace::trainer {

// A figure that is not defined is NaN: everything without examples; recall, auc, ne and calibration
// when one class is missing; precision when nothing was predicted positive.
struct BinaryMetrics {
  uint64_t examples = 0;     // without those whose margin is NaN
  uint64_t nan_margins = 0;  // these are in no other figure
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

  // More may be added after. Not const: the area under the curve sorts what is stored.
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
