// Max pooling. A part of lane_kernels_body.h, which says how it is included.
#pragma once

#include "convnets/engine/lane_body/vectors.h"

namespace millrace::convnets {
namespace {

INLINE V WindowMax(const V* x, size_t pitch, size_t k) {
  V best = x[0];
  for (size_t r = 0; r < k; ++r) {
    for (size_t s = 0; s < k; ++s) best = Max(best, x[r * pitch + s]);
  }
  return best;
}

void PoolForward(const LanePool& p, const float* x, float* y) {
  V* out = Vectors(y);
  for (size_t c = 0; c < p.C; ++c) {
    for (size_t row = 0; row + p.K <= p.H; row += p.K) {
      const V* in = Vectors(x) + (c * p.H + row) * p.W;
      for (size_t q = 0; q + p.K <= p.W; q += p.K) *out++ = WindowMax(in + q, p.W, p.K);
    }
  }
}

// The first of the window that equals the maximum takes the slope.
INLINE void WindowBackward(V* x, size_t pitch, size_t k, V best, V slope) {
  VI open = best == best;
  for (size_t r = 0; r < k; ++r) {
    for (size_t s = 0; s < k; ++s) {
      V& place = x[r * pitch + s];
      const VI taken = open & (place == best);
      place = reinterpret_cast<V>(taken & reinterpret_cast<VI>(slope));
      open &= ~taken;
    }
  }
}

void PoolBackward(const LanePool& p, const float* y, const float* dy, bool relu, float* x) {
  const V* best = Vectors(y);
  const V* slope = Vectors(dy);
  for (size_t c = 0; c < p.C; ++c) {
    for (size_t row = 0; row < p.H; ++row) {
      V* in = Vectors(x) + (c * p.H + row) * p.W;
      for (size_t q = p.W / p.K * p.K; q < p.W; ++q) in[q] = V{};
      if (row >= p.H / p.K * p.K) {
        for (size_t q = 0; q < p.W; ++q) in[q] = V{};
      }
    }
    for (size_t row = 0; row + p.K <= p.H; row += p.K) {
      V* in = Vectors(x) + (c * p.H + row) * p.W;
      for (size_t q = 0; q + p.K <= p.W; q += p.K, ++best, ++slope) {
        const V d = relu ? (*best > V{} ? *slope : V{}) : *slope;
        WindowBackward(in + q, p.W, p.K, *best, d);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::convnets
