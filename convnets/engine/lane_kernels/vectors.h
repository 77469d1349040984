// SPDX-License-Identifier: Apache-2.0
// Vectors of LANES floats with one image per lane, the conversion between this layout and images in
// rows, and passes over whole arrays. A part of lane_kernels_body.h, which describes how to include
// it.
#pragma once

namespace millrace::convnets {
namespace {

constexpr int L = LANES;
constexpr int K = static_cast<int>(kLaneKernel);
typedef float V __attribute__((vector_size(LANES * 4), aligned(LANES * 4), may_alias));
typedef float UnalignedV __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t VI __attribute__((vector_size(LANES * 4), may_alias));

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

INLINE const V* Vectors(const float* p) { return reinterpret_cast<const V*>(p); }
INLINE V* Vectors(float* p) { return reinterpret_cast<V*>(p); }
INLINE V Max(V a, V b) { return a > b ? a : b; }
INLINE V Broadcast(float x) { return V{} + x; }

// Lane j of a row that takes, from two rows, the low or the high halves of width `kStep`: its
// number among the 2 L lanes of both.
template <int kStep, bool kHigh>
constexpr int SwapLane(int j) {
  const bool second = (j / kStep) % 2 == 1;
  const int own = kHigh ? j + kStep : j;
  return second ? L + (kHigh ? j : j - kStep) : own;
}

template <int kStep, bool kHigh, int... kLane>
INLINE V SwapHalves(V a, V b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, SwapLane<kStep, kHigh>(kLane)...);
}

template <int kStep>
INLINE void SwapBlocks(V (&r)[L]) {
  UNROLL for (int i = 0; i < L; ++i) {
    if (i & kStep) continue;
    const V a = r[i], b = r[i + kStep];
    r[i] = SwapHalves<kStep, false>(a, b, std::make_integer_sequence<int, L>());
    r[i + kStep] = SwapHalves<kStep, true>(a, b, std::make_integer_sequence<int, L>());
  }
}

INLINE void Transpose(V (&r)[L]) {
  if constexpr (L > 8) SwapBlocks<L / 2 < 8 ? 1 : 8>(r);
  if constexpr (L > 4) SwapBlocks<4>(r);
  SwapBlocks<2>(r);
  SwapBlocks<1>(r);
}

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

void ReluBackward(const float* y, size_t size, float* dy) {
  for (size_t at = 0; at < size / L; ++at) {
    Vectors(dy)[at] = Vectors(y)[at] > V{} ? Vectors(dy)[at] : V{};
  }
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

}  // namespace
}  // namespace millrace::convnets
