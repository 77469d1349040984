// SPDX-License-Identifier: Apache-2.0
// Fully connected layers, and the softmax loss. A part of lane_kernels_body.h, which describes how
// to include it.
#pragma once

#include "convnets/engine/lane_kernels/vectors.h"

namespace millrace::convnets {
namespace {

template <int kO>
INLINE void FcTile(const LaneFc& f, const float* x, const float* w, const float* bias, bool relu,
                   float* y, size_t o) {
  V acc[kO];
  UNROLL for (int u = 0; u < kO; ++u) acc[u] = Broadcast(bias[o + u]);
  const float* rows = w + o * f.I;
  for (size_t i = 0; i < f.I; ++i) {
    const V v = Vectors(x)[i];
    UNROLL for (int u = 0; u < kO; ++u) acc[u] += v * rows[static_cast<size_t>(u) * f.I + i];
  }
  UNROLL for (int u = 0; u < kO; ++u) { Vectors(y)[o + u] = relu ? Max(acc[u], V{}) : acc[u]; }
}

void FcForward(const LaneFc& f, const float* x, const float* w, const float* bias, bool relu,
               float* y) {
  size_t o = 0;
  for (; o + 12 <= f.O; o += 12) FcTile<12>(f, x, w, bias, relu, y, o);
  for (; o + 10 <= f.O; o += 10) FcTile<10>(f, x, w, bias, relu, y, o);
  for (; o + 4 <= f.O; o += 4) FcTile<4>(f, x, w, bias, relu, y, o);
  for (; o < f.O; ++o) FcTile<1>(f, x, w, bias, relu, y, o);
}

template <int kO, int kI>
INLINE void FcWeightsTile(const float* rows, size_t pitch, const float* dy, bool first, float* dw,
                          size_t o, size_t at) {
  V acc[kO][kI];
  UNROLL for (int u = 0; u < kO; ++u) {
    UNROLL for (int t = 0; t < kI; ++t) {
      acc[u][t] = first ? V{} : Vectors(dw + (o + u) * pitch + at)[t];
    }
  }
  for (size_t n = 0; n < static_cast<size_t>(L); ++n) {
    V in[kI];
    UNROLL for (int t = 0; t < kI; ++t) in[t] = Vectors(rows + n * pitch + at)[t];
    UNROLL for (int u = 0; u < kO; ++u) {
      const float grad = dy[(o + u) * L + n];
      UNROLL for (int t = 0; t < kI; ++t) acc[u][t] += in[t] * grad;
    }
  }
  UNROLL for (int u = 0; u < kO; ++u) {
    UNROLL for (int t = 0; t < kI; ++t) Vectors(dw + (o + u) * pitch + at)[t] = acc[u][t];
  }
}

template <int kO>
INLINE void FcWeightsRows(const float* rows, size_t pitch, const float* dy, bool first, float* dw,
                          size_t o) {
  constexpr int kI = TILE >= 24 ? 4 : 2;
  size_t at = 0;
  for (; at + kI * L <= pitch; at += kI * L) {
    FcWeightsTile<kO, kI>(rows, pitch, dy, first, dw, o, at);
  }
  for (; at < pitch; at += L) FcWeightsTile<kO, 1>(rows, pitch, dy, first, dw, o, at);
}

void FcBackwardWeights(const LaneFc& f, const float* rows, size_t pitch, const float* dy,
                       bool first, float* dw, float* dbias) {
  size_t o = 0;
  for (; o + 6 <= f.O; o += 6) FcWeightsRows<6>(rows, pitch, dy, first, dw, o);
  for (; o + 2 <= f.O; o += 2) FcWeightsRows<2>(rows, pitch, dy, first, dw, o);
  for (; o < f.O; ++o) FcWeightsRows<1>(rows, pitch, dy, first, dw, o);
  for (o = 0; o < f.O; ++o) {
    Vectors(dbias)[o] = first ? Vectors(dy)[o] : Vectors(dbias)[o] + Vectors(dy)[o];
  }
}

template <int kI>
INLINE void FcDataTile(const LaneFc& f, const float* w, const float* dy, float* dx, size_t i) {
  V acc[kI] = {};
  for (size_t o = 0; o < f.O; ++o) {
    const V grad = Vectors(dy)[o];
    UNROLL for (int u = 0; u < kI; ++u) acc[u] += grad * w[o * f.I + i + u];
  }
  UNROLL for (int u = 0; u < kI; ++u) Vectors(dx)[i + u] = acc[u];
}

void FcBackwardData(const LaneFc& f, const float* w, const float* dy, float* dx) {
  size_t i = 0;
  for (; i + 12 <= f.I; i += 12) FcDataTile<12>(f, w, dy, dx, i);
  for (; i + 4 <= f.I; i += 4) FcDataTile<4>(f, w, dy, dx, i);
  for (; i < f.I; ++i) FcDataTile<1>(f, w, dy, dx, i);
}

// exp(x) for x <= 0: 2^n 2^f with n whole and |f| <= 1/2, 2^f by its Taylor polynomial of degree 6.
INLINE V Exp(V x) {
  const V scaled = Max(x, Broadcast(-87.0f)) * 1.44269504f;
  const V rounder = Broadcast(12582912.0f);  // 1.5 * 2^23: adding it leaves whole numbers
  volatile V whole = scaled + rounder;       // not to be simplified away
  const V n = whole - rounder;
  const V f = (scaled - n) * 0.693147181f;
  V p = Broadcast(1.0f / 720);
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f + 1.0f;
  p = p * f + 1.0f;
  const VI power = (__builtin_convertvector(n, VI) + 127) << 23;
  return p * reinterpret_cast<V>(power);
}

LaneLoss Softmax(const float* scores, size_t C, const int32_t* labels, float factor,
                 float* dscores) {
  const V* s = Vectors(scores);
  const VI label = *reinterpret_cast<const VI*>(labels);
  V best = s[0], own{};
  VI best_class{};
  for (size_t c = 0; c < C; ++c) {
    const VI number = VI{} + static_cast<int32_t>(c);
    best_class = s[c] > best ? number : best_class;
    best = Max(s[c], best);
    own = label == number ? s[c] : own;
  }
  V sum{};
  for (size_t c = 0; c < C; ++c) sum += Exp(s[c] - best);
  if (dscores) {
    const V scale = factor / sum;
    for (size_t c = 0; c < C; ++c) {
      const VI number = VI{} + static_cast<int32_t>(c);
      V grad = Exp(s[c] - best) * scale;
      grad = label == number ? grad - factor : grad;
      Vectors(dscores)[c] = label >= 0 ? grad : V{};
    }
  }
  LaneLoss total = {0, 0};
  for (int n = 0; n < L; ++n) {
    if (label[n] < 0) continue;
    total.loss +=
        __builtin_log(static_cast<double>(sum[n])) - static_cast<double>(own[n] - best[n]);
    total.correct += best_class[n] == label[n];
  }
  return total;
}

}  // namespace
}  // namespace millrace::convnets
