// Max pooling, the plain reference; windows may overlap and hang over the edge.
//
//   y[n][c][p][q] = max over the window of x[n][c]
//
// Of equal largest ones the first, row by row, gets the gradient.
#pragma once

#include <span>

#include "convnets/net/net_spec.h"

namespace millrace::convnets {

void MaxPoolForward(const Layer& layer, size_t images, std::span<const float> x,
                    std::span<float> y);
void MaxPoolBackward(const Layer& layer, size_t images, std::span<const float> x,
                     std::span<const float> dy, std::span<float> dx);

}  // namespace millrace::convnets
