// SPDX-License-Identifier: Apache-2.0
// Convolutions of K x K taps, and max pooling. A part of lane_kernels_body.h, which describes how
// to include it.
#pragma once

#include "convnets/engine/lane_kernels/vectors.h"

namespace millrace::convnets {
namespace {

// kO output channels from o on, kW columns from x0 on, of row y.
template <int kO, int kW>
INLINE void ConvTile(const LaneConv& c, const float* x, const float* w, const float* bias,
                     bool relu, float* y, size_t o, size_t row, size_t x0) {
  V acc[kO][kW];
  UNROLL for (int u = 0; u < kO; ++u) {
    UNROLL for (int q = 0; q < kW; ++q) acc[u][q] = Broadcast(bias[o + u]);
  }
  const size_t next_o = c.Ci * K * K;
  for (size_t i = 0; i < c.Ci; ++i) {
    for (size_t r = 0; r < K; ++r) {
      const V* in = Vectors(x) + (i * c.Hi + row + r) * c.Wi + x0;
      const float* taps = w + o * next_o + (i * K + r) * K;
      UNROLL for (int t = 0; t < kW + K - 1; ++t) {
        const V v = in[t];
        UNROLL for (int s = 0; s < K; ++s) {
          if (t - s < 0 || t - s >= kW) continue;
          UNROLL for (int u = 0; u < kO; ++u) acc[u][t - s] += v * taps[u * next_o + s];
        }
      }
    }
  }
  UNROLL for (int u = 0; u < kO; ++u) {
    V* out = Vectors(y) + ((o + u) * c.Ho + row) * c.Wo + x0;
    UNROLL for (int q = 0; q < kW; ++q) out[q] = relu ? Max(acc[u][q], V{}) : acc[u][q];
  }
}

template <int kO, int kW>
void ConvColumns(const LaneConv& c, const float* x, const float* w, const float* bias, bool relu,
                 float* y, size_t o) {
  for (size_t row = 0; row < c.Ho; ++row) {
    for (size_t x0 = 0; x0 < c.Wo; x0 += kW) {
      ConvTile<kO, kW>(c, x, w, bias, relu, y, o, row, x0);
    }
  }
}

// The widest tile that divides the row and fits into the registers.
template <int kO>
void ConvChannels(const LaneConv& c, const float* x, const float* w, const float* bias, bool relu,
                  float* y, size_t o) {
  if constexpr (14 * kO <= TILE) {
    if (c.Wo % 14 == 0) return ConvColumns<kO, 14>(c, x, w, bias, relu, y, o);
  }
  if constexpr (10 * kO <= TILE) {
    if (c.Wo % 10 == 0) return ConvColumns<kO, 10>(c, x, w, bias, relu, y, o);
  }
  if (c.Wo % 7 == 0) return ConvColumns<kO, 7>(c, x, w, bias, relu, y, o);
  if (c.Wo % 5 == 0) return ConvColumns<kO, 5>(c, x, w, bias, relu, y, o);
  ConvColumns<kO, 1>(c, x, w, bias, relu, y, o);
}

void ConvForward(const LaneConv& c, const float* x, const float* w, const float* bias, bool relu,
                 float* y) {
  size_t o = 0;
  for (; o + 2 <= c.Co; o += 2) ConvChannels<2>(c, x, w, bias, relu, y, o);
  if (o < c.Co) ConvChannels<1>(c, x, w, bias, relu, y, o);
}

// One row of taps of kO output channels: dw[o][i][r][0..4].
template <int kO>
INLINE void ConvWeightsTile(const LaneConv& c, const float* x, const float* dy, float* dw, size_t o,
                            size_t i, size_t r) {
  V acc[kO][K] = {};
  for (size_t row = 0; row < c.Ho; ++row) {
    const V* in = Vectors(x) + (i * c.Hi + row + r) * c.Wi;
    const V* grads = Vectors(dy) + (o * c.Ho + row) * c.Wo;
    for (size_t q = 0; q < c.Wo; ++q) {
      UNROLL for (int u = 0; u < kO; ++u) {
        const V grad = grads[static_cast<size_t>(u) * c.Ho * c.Wo + q];
        UNROLL for (int s = 0; s < K; ++s) acc[u][s] += grad * in[q + s];
      }
    }
  }
  UNROLL for (int u = 0; u < kO; ++u) {
    V* out = Vectors(dw) + (((o + u) * c.Ci + i) * K + r) * K;
    UNROLL for (int s = 0; s < K; ++s) out[s] += acc[u][s];
  }
}

template <int kO>
void ConvWeights(const LaneConv& c, const float* x, const float* dy, float* dw, size_t o) {
  for (size_t i = 0; i < c.Ci; ++i) {
    for (size_t r = 0; r < K; ++r) ConvWeightsTile<kO>(c, x, dy, dw, o, i, r);
  }
}

void ConvBackwardWeights(const LaneConv& c, const float* x, const float* dy, float* dw,
                         float* dbias) {
  constexpr int kO = TILE >= 24 ? 4 : 2;
  size_t o = 0;
  for (; o + kO <= c.Co; o += kO) ConvWeights<kO>(c, x, dy, dw, o);
  for (; o + 2 <= c.Co; o += 2) ConvWeights<2>(c, x, dy, dw, o);
  for (; o < c.Co; ++o) ConvWeights<1>(c, x, dy, dw, o);
  for (o = 0; o < c.Co; ++o) {
    V sums[4] = {};
    const V* grads = Vectors(dy) + o * c.Ho * c.Wo;
    for (size_t at = 0; at < c.Ho * c.Wo; ++at) sums[at % 4] += grads[at];
    Vectors(dbias)[o] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
}

// Rows `row` of kI input channels from i on, for a width known at compile time.
template <int kI, int kWo>
INLINE void ConvDataRow(const LaneConv& c, const float* w, const float* dy, float* dx, size_t i,
                        size_t row) {
  V acc[kI][kWo + K - 1] = {};
  const size_t first = row + 1 > c.Ho ? row + 1 - c.Ho : 0;
  for (size_t r = first; r < K && r <= row; ++r) {
    for (size_t o = 0; o < c.Co; ++o) {
      const V* grads = Vectors(dy) + (o * c.Ho + row - r) * c.Wo;
      const float* taps = w + ((o * c.Ci + i) * K + r) * K;
      UNROLL for (int q = 0; q < kWo; ++q) {
        const V grad = grads[q];
        UNROLL for (int u = 0; u < kI; ++u) {
          UNROLL for (int s = 0; s < K; ++s) acc[u][q + s] += grad * taps[u * K * K + s];
        }
      }
    }
  }
  UNROLL for (int u = 0; u < kI; ++u) {
    V* out = Vectors(dx) + ((i + u) * c.Hi + row) * c.Wi;
    UNROLL for (int q = 0; q < kWo + K - 1; ++q) out[q] = acc[u][q];
  }
}

// Any width: the row is summed up in memory.
void ConvDataAnyRow(const LaneConv& c, const float* w, const float* dy, float* dx, size_t i,
                    size_t row) {
  V* out = Vectors(dx) + (i * c.Hi + row) * c.Wi;
  for (size_t q = 0; q < c.Wi; ++q) out[q] = V{};
  const size_t first = row + 1 > c.Ho ? row + 1 - c.Ho : 0;
  for (size_t r = first; r < K && r <= row; ++r) {
    for (size_t o = 0; o < c.Co; ++o) {
      const V* grads = Vectors(dy) + (o * c.Ho + row - r) * c.Wo;
      const float* taps = w + ((o * c.Ci + i) * K + r) * K;
      for (size_t q = 0; q < c.Wo; ++q) {
        UNROLL for (int s = 0; s < K; ++s) out[q + s] += grads[q] * taps[s];
      }
    }
  }
}

void ConvBackwardData(const LaneConv& c, const float* w, const float* dy, float* dx) {
  constexpr int kI = TILE >= 28 ? 2 : 1;
  for (size_t row = 0; row < c.Hi; ++row) {
    size_t i = 0;
    if (c.Wo == 10) {
      for (; i + kI <= c.Ci; i += kI) ConvDataRow<kI, 10>(c, w, dy, dx, i, row);
    }
    for (; i < c.Ci; ++i) ConvDataAnyRow(c, w, dy, dx, i, row);
  }
}

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

// The first of the window that equals the maximum takes the grad.
INLINE void WindowBackward(V* x, size_t pitch, size_t k, V best, V grad) {
  VI open = best == best;
  for (size_t r = 0; r < k; ++r) {
    for (size_t s = 0; s < k; ++s) {
      V& place = x[r * pitch + s];
      const VI taken = open & (place == best);
      place = reinterpret_cast<V>(taken & reinterpret_cast<VI>(grad));
      open &= ~taken;
    }
  }
}

void PoolBackward(const LanePool& p, const float* y, const float* dy, bool relu, float* x) {
  const V* best = Vectors(y);
  const V* grad = Vectors(dy);
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
      for (size_t q = 0; q + p.K <= p.W; q += p.K, ++best, ++grad) {
        const V d = relu ? (*best > V{} ? *grad : V{}) : *grad;
        WindowBackward(in + q, p.W, p.K, *best, d);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::convnets
