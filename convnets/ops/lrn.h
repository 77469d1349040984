// Local response normalisation across channels, the plain reference. With s the channel's own sum:
//
//   s[c] = k + alpha / size * sum over |j - c| <= size / 2 of x[j]^2,   y[c] = x[c] s[c]^-beta
//   dx[c] = dy[c] s[c]^-beta - 2 alpha beta / size x[c] sum over |j - c| <= size / 2 of
//           dy[j] x[j] s[j]^(-beta - 1)
#pragma once

#include <span>

#include "convnets/net/net_spec.h"

namespace millrace::convnets {

void LrnForward(const Layer& layer, size_t images, std::span<const float> x, std::span<float> y);
void LrnBackward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> dy, std::span<float> dx);

}  // namespace millrace::convnets
