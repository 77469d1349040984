#include "convnets/ops/lrn.h"

#include <algorithm>
#include <cmath>

namespace millrace::convnets {
namespace {

// Sums value(j) over the channels around c.
template <typename Value>
float SumAround(const Layer& layer, size_t c, Value value) {
  const size_t half = layer.lrn.size / 2;
  const size_t end = std::min(c + half + 1, layer.in.channels);
  float sum = 0;
  for (size_t j = c - std::min(c, half); j < end; ++j) sum += value(j);
  return sum;
}

float Scale(const Layer& layer, const float* x, size_t area, size_t c) {
  const float squares = SumAround(layer, c, [&](size_t j) { return x[j * area] * x[j * area]; });
  return layer.lrn.k + layer.lrn.alpha / static_cast<float>(layer.lrn.size) * squares;
}

// Calls visit(index of the image's first value at a place, channel) for all of them.
template <typename Visit>
void ForEach(const Layer& layer, size_t images, Visit visit) {
  const size_t area = layer.in.height * layer.in.width;
  for (size_t n = 0; n < images; ++n) {
    for (size_t at = 0; at < area; ++at) {
      for (size_t c = 0; c < layer.in.channels; ++c) visit(n * layer.in.size() + at, c);
    }
  }
}

}  // namespace

void LrnForward(const Layer& layer, size_t images, std::span<const float> x, std::span<float> y) {
  const size_t area = layer.in.height * layer.in.width;
  ForEach(layer, images, [&](size_t first, size_t c) {
    const float scale = Scale(layer, &x[first], area, c);
    y[first + c * area] = x[first + c * area] * std::pow(scale, -layer.lrn.beta);
  });
}

void LrnBackward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> dy, std::span<float> dx) {
  const size_t area = layer.in.height * layer.in.width;
  const float beta = layer.lrn.beta;
  const float factor = 2 * layer.lrn.alpha * beta / static_cast<float>(layer.lrn.size);
  ForEach(layer, images, [&](size_t first, size_t c) {
    const size_t at = first + c * area;
    const float around = SumAround(layer, c, [&](size_t j) {
      const size_t other = first + j * area;
      return dy[other] * x[other] * std::pow(Scale(layer, &x[first], area, j), -beta - 1);
    });
    dx[at] = dy[at] * std::pow(Scale(layer, &x[first], area, c), -beta) - factor * x[at] * around;
  });
}

}  // namespace millrace::convnets
