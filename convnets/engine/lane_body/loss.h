// Softmax and its loss. A part of lane_kernels_body.h, which says how it is included.
#pragma once

#include "convnets/engine/lane_body/vectors.h"

namespace millrace::convnets {
namespace {

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
                 float* slopes) {
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
  if (slopes) {
    const V scale = factor / sum;
    for (size_t c = 0; c < C; ++c) {
      const VI number = VI{} + static_cast<int32_t>(c);
      V slope = Exp(s[c] - best) * scale;
      slope = label == number ? slope - factor : slope;
      Vectors(slopes)[c] = label >= 0 ? slope : V{};
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
