#include "convnets/ops/softmax_loss.h"

#include <algorithm>
#include <cmath>

namespace millrace::convnets {

Outcome SoftmaxLoss(std::span<const float> scores, std::span<const int32_t> labels, float factor,
                    std::span<float> slopes) {
  Outcome outcome;
  if (labels.empty()) return outcome;
  const size_t classes = scores.size() / labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    const std::span<const float> s = scores.subspan(n * classes, classes);
    const auto label = static_cast<size_t>(labels[n]);
    const auto top = std::ranges::max_element(s);
    const float highest = *top, own = s[label];
    outcome.correct += static_cast<size_t>(top - s.begin()) == label;
    double sum = 0;
    for (const float score : s) sum += std::exp(static_cast<double>(score - highest));
    outcome.loss += std::log(sum) - static_cast<double>(own - highest);
    if (slopes.empty()) continue;
    for (size_t c = 0; c < classes; ++c) {
      const double p = std::exp(static_cast<double>(s[c] - highest)) / sum;
      slopes[n * classes + c] = factor * (static_cast<float>(p) - (c == label ? 1.0f : 0.0f));
    }
  }
  return outcome;
}

}  // namespace millrace::convnets
