#include "convnets/ops/convolution.h"

#include <algorithm>

namespace millrace::convnets {
namespace {

// Calls visit(x index, w index, y index) for every product of the sum.
template <typename Visit>
void ForEachProduct(const Layer& layer, size_t images, Visit visit) {
  const Shape& in = layer.in;
  const Shape& out = layer.out;
  const size_t K = layer.window.kernel;
  const size_t group_in = in.channels / layer.groups, group_out = out.channels / layer.groups;
  const auto inside = [](size_t at, size_t offset, size_t pad, size_t size, size_t& found) {
    found = at + offset - pad;  // wraps below zero, and is then beyond `size`
    return found < size;
  };
  for (size_t n = 0; n < images; ++n) {
    for (size_t o = 0; o < out.channels; ++o) {
      for (size_t i = 0; i < group_in; ++i) {
        const size_t channel = o / group_out * group_in + i;
        for (size_t p = 0; p < out.height; ++p) {
          for (size_t r = 0; r < K; ++r) {
            size_t row = 0, column = 0;
            if (!inside(p * layer.window.stride, r, layer.window.pad, in.height, row)) continue;
            for (size_t q = 0; q < out.width; ++q) {
              for (size_t s = 0; s < K; ++s) {
                if (!inside(q * layer.window.stride, s, layer.window.pad, in.width, column))
                  continue;
                visit(((n * in.channels + channel) * in.height + row) * in.width + column,
                      ((o * group_in + i) * K + r) * K + s,
                      ((n * out.channels + o) * out.height + p) * out.width + q);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

void ConvForward(const Layer& layer, size_t images, std::span<const float> x,
                 std::span<const float> weights, std::span<const float> bias, std::span<float> y) {
  const size_t area = layer.out.height * layer.out.width;
  for (size_t at = 0; at < images * layer.out.size(); ++at) {
    y[at] = bias[at / area % layer.out.channels];
  }
  ForEachProduct(layer, images,
                 [&](size_t xi, size_t wi, size_t yi) { y[yi] += weights[wi] * x[xi]; });
}

void ConvBackward(const Layer& layer, size_t images, std::span<const float> x,
                  std::span<const float> weights, std::span<const float> dy, std::span<float> dx,
                  std::span<float> dweights, std::span<float> dbias) {
  std::ranges::fill(dx, 0.0f);
  std::ranges::fill(dweights, 0.0f);
  std::ranges::fill(dbias, 0.0f);
  const size_t area = layer.out.height * layer.out.width;
  for (size_t at = 0; at < images * layer.out.size(); ++at) {
    dbias[at / area % layer.out.channels] += dy[at];
  }
  ForEachProduct(layer, images, [&](size_t xi, size_t wi, size_t yi) {
    dweights[wi] += dy[yi] * x[xi];
    if (!dx.empty()) dx[xi] += dy[yi] * weights[wi];
  });
}

}  // namespace millrace::convnets
