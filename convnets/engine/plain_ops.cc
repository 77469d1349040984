// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/plain_ops.h"

#include <algorithm>
#include <cmath>

#include "io/base/random.h"

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
      const float grad = dy[n * outputs + o];
      dbias[o] += grad;
      for (size_t i = 0; i < inputs; ++i) {
        dweights[o * inputs + i] += grad * x[n * inputs + i];
        if (!dx.empty()) dx[n * inputs + i] += grad * weights[o * inputs + i];
      }
    }
  }
}

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

// Calls visit(index of the value in channel 0, channel) for every value of every image.
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

namespace {

constexpr uint64_t kDropoutStream = 0xd509;

}  // namespace

void ReluForward(std::span<const float> x, std::span<float> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 ? x[i] : 0.0f;
}

void ReluBackward(std::span<const float> y, std::span<const float> dy, std::span<float> dx) {
  for (size_t i = 0; i < y.size(); ++i) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

uint64_t DropoutSeed(uint64_t seed, uint64_t step, size_t layer) {
  return DeriveSeed(DeriveSeed(seed, kDropoutStream, step), layer);
}

void Dropout(double rate, uint64_t mask_seed, size_t begin, std::span<const float> x,
             std::span<float> y) {
  const auto scale = static_cast<float>(1 / (1 - rate));
  const auto drop_below = static_cast<uint64_t>(rate * 0x1p32);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t bits = Mix64(mask_seed + (begin + i) * 0x9e3779b97f4a7c15u) >> 32;
    y[i] = bits < drop_below ? 0.0f : x[i] * scale;
  }
}

Outcome SoftmaxLoss(std::span<const float> scores, std::span<const int32_t> labels, float factor,
                    std::span<float> dscores) {
  Outcome outcome;
  if (labels.empty()) return outcome;
  const size_t classes = scores.size() / labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0) continue;
    const std::span<const float> s = scores.subspan(n * classes, classes);
    const auto label = static_cast<size_t>(labels[n]);
    const auto top = std::ranges::max_element(s);
    const float highest = *top, own = s[label];
    outcome.correct += static_cast<size_t>(top - s.begin()) == label;
    double sum = 0;
    for (const float score : s) sum += std::exp(static_cast<double>(score - highest));
    outcome.loss += std::log(sum) - static_cast<double>(own - highest);
    if (dscores.empty()) continue;
    for (size_t c = 0; c < classes; ++c) {
      const double p = std::exp(static_cast<double>(s[c] - highest)) / sum;
      dscores[n * classes + c] = factor * (static_cast<float>(p) - (c == label ? 1.0f : 0.0f));
    }
  }
  return outcome;
}

}  // namespace millrace::convnets
