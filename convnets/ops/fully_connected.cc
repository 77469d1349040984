#include "convnets/ops/fully_connected.h"

#include <algorithm>

namespace millrace::convnets {

void FullyConnectedForward(const Layer& layer, size_t images, std::span<const float> x,
                           std::span<const float> weights, std::span<const float> bias,
                           std::span<float> y) {
  const size_t inputs = layer.in.size(), outputs = layer.out.size();
  for (size_t n = 0; n < images; ++n) {
    for (size_t o = 0; o < outputs; ++o) {
      float sum = bias[o];
      for (size_t i = 0; i < inputs; ++i) sum += weights[o * inputs + i] * x[n * inputs + i];
      y[n * outputs + o] = sum;
    }
  }
}

void FullyConnectedBackward(const Layer& layer, size_t images, std::span<const float> x,
                            std::span<const float> weights, std::span<const float> dy,
                            std::span<float> dx, std::span<float> dweights,
                            std::span<float> dbias) {
  const size_t inputs = layer.in.size(), outputs = layer.out.size();
  std::ranges::fill(dx, 0.0f);
  std::ranges::fill(dweights, 0.0f);
  std::ranges::fill(dbias, 0.0f);
  for (size_t n = 0; n < images; ++n) {
    for (size_t o = 0; o < outputs; ++o) {
      const float slope = dy[n * outputs + o];
      dbias[o] += slope;
      for (size_t i = 0; i < inputs; ++i) {
        dweights[o * inputs + i] += slope * x[n * inputs + i];
        if (!dx.empty()) dx[n * inputs + i] += slope * weights[o * inputs + i];
      }
    }
  }
}

}  // namespace millrace::convnets
