// Softmax cross-entropy, stable at any score. [N] images, C classes:
//
//   p[c] = exp(s[c] - max s) / sum,   loss = log sum - (s[label] - max s)
//   ds[c] = p[c] - [c = label]
#pragma once

#include <cstdint>
#include <span>

#include "convnets/net/net.h"

namespace millrace::convnets {

// `slopes` (may be empty, may be `scores` itself) gets ds times `factor`.
Outcome SoftmaxLoss(std::span<const float> scores, std::span<const int32_t> labels, float factor,
                    std::span<float> slopes);

}  // namespace millrace::convnets
