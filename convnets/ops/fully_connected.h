// A fully connected layer, the plain reference. [N] images, I inputs, O outputs:
//
//   y[n][o] = bias[o] + sum over i of w[o][i] x[n][i]
#pragma once

#include <span>

#include "convnets/net/net_spec.h"

namespace millrace::convnets {

void FullyConnectedForward(const Layer& layer, size_t images, std::span<const float> x,
                           std::span<const float> weights, std::span<const float> bias,
                           std::span<float> y);
// dx may be empty: it is not computed then. All three results are overwritten.
void FullyConnectedBackward(const Layer& layer, size_t images, std::span<const float> x,
                            std::span<const float> weights, std::span<const float> dy,
                            std::span<float> dx, std::span<float> dweights, std::span<float> dbias);

}  // namespace millrace::convnets
