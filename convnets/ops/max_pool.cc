#include "convnets/ops/max_pool.h"

#include <algorithm>

namespace millrace::convnets {
namespace {

// The index in `plane` of the largest value that output (p, q) sees.
size_t Largest(const Layer& layer, std::span<const float> plane, size_t p, size_t q) {
  const Window& w = layer.window;
  const auto begin = [&](size_t at) { return at * w.stride - std::min(at * w.stride, w.pad); };
  const auto end = [&](size_t at, size_t size) {
    return std::min(at * w.stride + w.kernel - w.pad, size);
  };
  size_t best = begin(p) * layer.in.width + begin(q);
  for (size_t row = begin(p); row < end(p, layer.in.height); ++row) {
    for (size_t column = begin(q); column < end(q, layer.in.width); ++column) {
      const size_t at = row * layer.in.width + column;
      if (plane[at] > plane[best]) best = at;
    }
  }
  return best;
}

// Calls visit(x index, y index) for the value that each output takes.
template <typename Visit>
void ForEachOutput(const Layer& layer, size_t images, std::span<const float> x, Visit visit) {
  const size_t area = layer.in.height * layer.in.width;
  size_t y = 0;
  for (size_t plane = 0; plane < images * layer.in.channels; ++plane) {
    for (size_t p = 0; p < layer.out.height; ++p) {
      for (size_t q = 0; q < layer.out.width; ++q) {
        visit(plane * area + Largest(layer, x.subspan(plane * area, area), p, q), y++);
      }
    }
  }
}

}  // namespace

void MaxPoolForward(const Layer& layer, size_t images, std::span<const float> x,
                    std::span<float> y) {
  ForEachOutput(layer, images, x, [&](size_t xi, size_t yi) { y[yi] = x[xi]; });
}

void MaxPoolBackward(const Layer& layer, size_t images, std::span<const float> x,
                     std::span<const float> dy, std::span<float> dx) {
  std::ranges::fill(dx, 0.0f);
  ForEachOutput(layer, images, x, [&](size_t xi, size_t yi) { dx[xi] += dy[yi]; });
}

}  // namespace millrace::convnets
