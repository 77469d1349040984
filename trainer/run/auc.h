// The area under the ROC curve of scored examples: the probability that a positive scores above a
// negative, ties counted half.
//
//   AUC = sum over pairs (p positive, n negative) of
//         w_p w_n ([m_p > m_n] + [m_p = m_n] / 2) / (P N)
//
// where P and N are the weights of all positives and of all negatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::trainer {

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

  // More may be added after. Not const: it sorts what is stored.
  Area Compute();

  void Clear();

 private:
  struct Bucket {
    double negatives = 0, positives = 0;
  };

  static uint64_t Packed(float margin, bool positive, float weight);
  void Count(float margin, bool positive, float weight);
  void StartCounting(float margin, bool positive, float weight);

  size_t exact_examples_;
  std::vector<uint64_t> scores_;  // Packed; empty when buckets_ is not
  std::vector<Bucket> buckets_;   // by rising margin
};

}  // namespace millrace::trainer
