// SPDX-License-Identifier: Apache-2.0
// The plain ops, one loop nest each: PlainNet runs them all, the tests use them as the reference,
// and the other engines share ReLU, dropout and the loss. Arrays are
// [images][channels][height][width]; x is the input, y the output, and dx, dy, dweights, dbias are
// the gradients of the loss.
#pragma once

#include <cstdint>
#include <span>

#include "convnets/net/net.h"
#include "convnets/net/net_spec.h"

namespace millrace::convnets {

// Convolution with groups and bias. [N] images, Ci and Co channels, G groups:
//
//   y[n][o][p][q] = bias[o] + sum over i, r, s of
//                   w[o][i][r][s] x[n][g Ci/G + i][p S - P + r][q S - P + s]
//
// where g is the group of o, S the stride, P the padding, and x is 0 outside the image.
void ConvForward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> weights, std::span<const float> bias, std::span<float> y);
// An empty dx is not computed. All three results are overwritten.
void ConvBackward(const Layer& layer, size_t images, std::span<const float> x,
                  std::span<const float> weights, std::span<const float> dy, std::span<float> dx,
                  std::span<float> dweights, std::span<float> dbias);

// A fully connected layer. [N] images, I inputs, O outputs:
//
//   y[n][o] = bias[o] + sum over i of w[o][i] x[n][i]
void FullyConnectedForward(const Layer& layer, size_t images, std::span<const float> x,
                           std::span<const float> weights, std::span<const float> bias,
                           std::span<float> y);
// An empty dx is not computed. All three results are overwritten.
void FullyConnectedBackward(const Layer& layer, size_t images, std::span<const float> x,
                            std::span<const float> weights, std::span<const float> dy,
                            std::span<float> dx, std::span<float> dweights, std::span<float> dbias);

// Max pooling; windows may overlap and extend past the edge.
//
//   y[n][c][p][q] = max over the window of x[n][c]
//
// The first maximum of a window, row by row, gets the gradient.
void MaxPoolForward(const Layer& layer, size_t images, std::span<const float> x,
                    std::span<float> y);
void MaxPoolBackward(const Layer& layer, size_t images, std::span<const float> x,
                     std::span<const float> dy, std::span<float> dx);

// Local response normalisation across channels:
//
//   s[c] = k + alpha / size * sum over |j - c| <= size / 2 of x[j]^2,   y[c] = x[c] s[c]^-beta
//   dx[c] = dy[c] s[c]^-beta - 2 alpha beta / size x[c] sum over |j - c| <= size / 2 of
//           dy[j] x[j] s[j]^(-beta - 1)
void LrnForward(const Layer& layer, size_t images, std::span<const float> x, std::span<float> y);
void LrnBackward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> dy, std::span<float> dx);

// ReLU and dropout may run in place.
//
//   relu      y = max(x, 0),  dx = y > 0 ? dy : 0
//   dropout   y = keep ? x / (1 - rate) : 0, the same for dy; `keep` is a function of a seed and
//   the
//             element's position, so that masks are not stored and runs are reproducible
void ReluForward(std::span<const float> x, std::span<float> y);
void ReluBackward(std::span<const float> y, std::span<const float> dy, std::span<float> dx);

// The seed of a layer's mask in a step.
uint64_t DropoutSeed(uint64_t seed, uint64_t step, size_t layer);
// Forward and backward. `begin`: the position of x[0] in the layer.
void Dropout(double rate, uint64_t mask_seed, size_t begin, std::span<const float> x,
             std::span<float> y);

// Softmax cross-entropy, stable at any score. [N] images, C classes:
//
//   p[c] = exp(s[c] - max s) / sum,   loss = log sum - (s[label] - max s)
//   ds[c] = p[c] - [c = label]
//
// `dscores` (empty or `scores` itself are allowed) gets ds times `factor`. An image with a label
// below 0 is left out (only without `dscores`).
Outcome SoftmaxLoss(std::span<const float> scores, std::span<const int32_t> labels, float factor,
                    std::span<float> dscores);

}  // namespace millrace::convnets
