// The kernels of lane_kernels.h, to be included once in a file for each instruction set, behind its
// target pragma. Before that the file defines LANES (floats in a vector) and TILE (accumulators
// that a kernel may hold in registers). Nothing here may come from the standard library but plain
// functions: an inline function that is compiled for a larger instruction set must never be shared.
#pragma once

namespace millrace::convnets {
namespace {

constexpr int L = LANES;
constexpr int K = static_cast<int>(kLaneKernel);
typedef float V __attribute__((vector_size(LANES * 4), aligned(LANES * 4), may_alias));
typedef int32_t VI __attribute__((vector_size(LANES * 4), may_alias));

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

INLINE const V* Vectors(const float* p) { return reinterpret_cast<const V*>(p); }
INLINE V* Vectors(float* p) { return reinterpret_cast<V*>(p); }
INLINE V Max(V a, V b) { return a > b ? a : b; }
INLINE V Broadcast(float x) { return V{} + x; }

// ---- layout

// The mask that takes, of two rows, the halves of width `step` that belong together.
template <int kStep, bool kHigh>
INLINE VI SwapMask() {
  VI mask{};
  UNROLL for (int j = 0; j < L; ++j) {
    const bool second = (j / kStep) % 2 == 1;
    const int own = kHigh ? j + kStep : j;
    mask[j] = second ? L + (kHigh ? j : j - kStep) : own;
  }
  return mask;
}

template <int kStep>
INLINE void SwapBlocks(V (&r)[L]) {
  UNROLL for (int i = 0; i < L; ++i) {
    if (i & kStep) continue;
    const V a = r[i], b = r[i + kStep];
    r[i] = __builtin_shuffle(a, b, SwapMask<kStep, false>());
    r[i + kStep] = __builtin_shuffle(a, b, SwapMask<kStep, true>());
  }
}

INLINE void Transpose(V (&r)[L]) {
  if constexpr (L > 8) SwapBlocks<L / 2 < 8 ? 1 : 8>(r);
  if constexpr (L > 4) SwapBlocks<4>(r);
  SwapBlocks<2>(r);
  SwapBlocks<1>(r);
}

typedef float UnalignedV __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

// L numbers of each image from `at` on, fewer at the row's end.
INLINE void LoadTile(const float* rows, size_t images, size_t size, size_t at, V (&r)[L]) {
  const size_t count = size - at < L ? size - at : L;
  for (size_t n = 0; n < static_cast<size_t>(L); ++n) {
    if (n < images && count == L) {
      r[n] = *reinterpret_cast<const UnalignedV*>(rows + n * size + at);
    } else {
      V v{};
      for (size_t j = 0; n < images && j < count; ++j) v[j] = rows[n * size + at + j];
      r[n] = v;
    }
  }
}

void Pack(const float* rows, size_t images, size_t C, size_t H, size_t W, size_t pad,
          float* lanes) {
  const size_t size = C * H * W, pitch = W + 2 * pad;
  V* const out = Vectors(lanes);
  size_t x = 0, y = 0, base = pad * pitch + pad;  // of the next number
  for (size_t at = 0; at < size; at += L) {
    V r[L];
    LoadTile(rows, images, size, at, r);
    Transpose(r);
    for (size_t j = 0; j < static_cast<size_t>(L) && at + j < size; ++j) {
      out[base + x] = r[j];
      if (++x < W) continue;
      x = 0;
      base += pitch;
      if (++y < H) continue;
      y = 0;
      base += 2 * pad * pitch;
    }
  }
}

void Unpack(const float* lanes, size_t I, size_t pitch, float* rows) {
  for (size_t at = 0; at < pitch; at += L) {
    V r[L];
    UNROLL for (int j = 0; j < L; ++j) {
      r[j] = at + static_cast<size_t>(j) < I ? Vectors(lanes)[at + static_cast<size_t>(j)] : V{};
    }
    Transpose(r);
    UNROLL for (int n = 0; n < L; ++n) {
      *Vectors(rows + static_cast<size_t>(n) * pitch + at) = r[n];
    }
  }
}

// ---- convolution

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
    const V* slopes = Vectors(dy) + (o * c.Ho + row) * c.Wo;
    for (size_t q = 0; q < c.Wo; ++q) {
      UNROLL for (int u = 0; u < kO; ++u) {
        const V slope = slopes[static_cast<size_t>(u) * c.Ho * c.Wo + q];
        UNROLL for (int s = 0; s < K; ++s) acc[u][s] += slope * in[q + s];
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
    const V* slopes = Vectors(dy) + o * c.Ho * c.Wo;
    for (size_t at = 0; at < c.Ho * c.Wo; ++at) sums[at % 4] += slopes[at];
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
      const V* slopes = Vectors(dy) + (o * c.Ho + row - r) * c.Wo;
      const float* taps = w + ((o * c.Ci + i) * K + r) * K;
      UNROLL for (int q = 0; q < kWo; ++q) {
        const V slope = slopes[q];
        UNROLL for (int u = 0; u < kI; ++u) {
          UNROLL for (int s = 0; s < K; ++s) acc[u][q + s] += slope * taps[u * K * K + s];
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
      const V* slopes = Vectors(dy) + (o * c.Ho + row - r) * c.Wo;
      const float* taps = w + ((o * c.Ci + i) * K + r) * K;
      for (size_t q = 0; q < c.Wo; ++q) {
        UNROLL for (int s = 0; s < K; ++s) out[q + s] += slopes[q] * taps[s];
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

// ---- pooling

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

// ---- fully connected

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
      const float slope = dy[(o + u) * L + n];
      UNROLL for (int t = 0; t < kI; ++t) acc[u][t] += in[t] * slope;
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
    const V slope = Vectors(dy)[o];
    UNROLL for (int u = 0; u < kI; ++u) acc[u] += slope * w[o * f.I + i + u];
  }
  UNROLL for (int u = 0; u < kI; ++u) Vectors(dx)[i + u] = acc[u];
}

void FcBackwardData(const LaneFc& f, const float* w, const float* dy, float* dx) {
  size_t i = 0;
  for (; i + 12 <= f.I; i += 12) FcDataTile<12>(f, w, dy, dx, i);
  for (; i + 4 <= f.I; i += 4) FcDataTile<4>(f, w, dy, dx, i);
  for (; i < f.I; ++i) FcDataTile<1>(f, w, dy, dx, i);
}

void ReluBackward(const float* y, size_t size, float* dy) {
  for (size_t at = 0; at < size / L; ++at) {
    Vectors(dy)[at] = Vectors(y)[at] > V{} ? Vectors(dy)[at] : V{};
  }
}

// ---- loss

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

void Add(const float* x, size_t size, float* sums) {
  for (size_t at = 0; at < size / L; ++at) Vectors(sums)[at] += Vectors(x)[at];
}

void SumLanes(const float* lanes, size_t count, float* sums) {
  size_t at = 0;
  for (; at + L <= count; at += L) {
    V r[L];
    UNROLL for (int j = 0; j < L; ++j) r[j] = Vectors(lanes)[at + static_cast<size_t>(j)];
    Transpose(r);
    V sum = r[0];
    UNROLL for (int j = 1; j < L; ++j) sum += r[j];
    *reinterpret_cast<UnalignedV*>(sums + at) = sum;
  }
  for (; at < count; ++at) {
    float sum = 0;
    for (int n = 0; n < L; ++n) sum += Vectors(lanes)[at][n];
    sums[at] = sum;
  }
}

constexpr LaneKernels kKernels = {
    .lanes = L,
    .instructions = INSTRUCTIONS,
    .pack = Pack,
    .unpack = Unpack,
    .conv_forward = ConvForward,
    .conv_backward_weights = ConvBackwardWeights,
    .conv_backward_data = ConvBackwardData,
    .pool_forward = PoolForward,
    .pool_backward = PoolBackward,
    .fc_forward = FcForward,
    .fc_backward_weights = FcBackwardWeights,
    .fc_backward_data = FcBackwardData,
    .relu_backward = ReluBackward,
    .softmax = Softmax,
    .add = Add,
    .sum_lanes = SumLanes,
};

}  // namespace
}  // namespace millrace::convnets
