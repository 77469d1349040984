// The logistic loss of one example, stable at any margin.
//
//   margin m = w . x,   y in {0, 1}
//   loss(m, y)  = log(1 + exp(-s m)),  s = +1 for y = 1 and -1 for y = 0
//   residual(m, y) = d loss / d m = sigmoid(m) - y
#pragma once

#include <algorithm>
#include <cmath>

namespace millrace::sparse {

inline float Sigmoid(float margin) {
  const float e = std::exp(-std::abs(margin));  // at most 1: never overflows
  return margin >= 0 ? 1 / (1 + e) : e / (1 + e);
}

inline float LogisticLoss(float margin, float label) {
  const float m = label > 0 ? margin : -margin;
  return std::max(-m, 0.f) + std::log1p(std::exp(-std::abs(m)));
}

inline float LogisticSlope(float margin, float label) { return Sigmoid(margin) - label; }

}  // namespace millrace::sparse
