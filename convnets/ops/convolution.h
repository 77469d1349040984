// Convolution with groups and bias, the plain reference. [N] images, Ci and Co channels, G groups:
//
//   y[n][o][p][q] = bias[o] + sum over i, r, s of
//                   w[o][i][r][s] x[n][g Ci/G + i][p S - P + r][q S - P + s]
//
// where g is the group of o, S the stride, P the padding, and x is 0 outside the image.
#pragma once

#include <span>

#include "convnets/net/net_spec.h"

namespace millrace::convnets {

void ConvForward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> weights, std::span<const float> bias, std::span<float> y);
// dx may be empty: it is not computed then. All three results are overwritten.
void ConvBackward(const Layer& layer, size_t images, std::span<const float> x,
                  std::span<const float> weights, std::span<const float> dy, std::span<float> dx,
                  std::span<float> dweights, std::span<float> dbias);

}  // namespace millrace::convnets
