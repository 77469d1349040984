// SPDX-License-Identifier: Apache-2.0
// Kernels for small nets with one image per SIMD lane: a block has L images, where L is the number
// of floats in a vector, and each activation is a vector with the values of these L images.
// One-channel images, six output channels and ten classes all run at full vector width, and a
// weight is a scalar that multiplies a vector. [..] are array shapes, the innermost dimension last;
// a [V] is a vector of L floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/base/cpu.h"

namespace millrace::convnets {

constexpr size_t kLaneKernel = 5;  // convolutions are 5x5

// y[Co][Ho][Wo][V] from x[Ci][Hi][Wi][V] (with its border of zeros), stride 1: Ho = Hi - 4.
struct LaneConv {
  size_t Ci, Co, Hi, Wi, Ho, Wo;
};
// Windows of K x K that do not overlap; Ho = H / K. The last H % K rows and W % K columns are
// unused.
struct LanePool {
  size_t C, H, W, K;
};
struct LaneFc {
  size_t I, O;
};

struct LaneLoss {
  double loss;
  uint64_t correct;
};

struct LaneKernels {
  size_t lanes;  // L
  const char* instructions;

  // Converts `images` <= L rows of [C][H][W] to [C][H + 2 pad][W + 2 pad][V]. Leaves the border
  // unchanged; the lanes of missing images become 0.
  void (*pack)(const float* rows, size_t images, size_t C, size_t H, size_t W, size_t pad,
               float* lanes);
  // Converts [I][V] to L rows of `pitch` floats, a multiple of L; floats after I become 0.
  void (*unpack)(const float* lanes, size_t I, size_t pitch, float* rows);

  // y = x * w + bias, and max(y, 0) if `relu`.
  void (*conv_forward)(const LaneConv& conv, const float* x, const float* w, const float* bias,
                       bool relu, float* y);
  // dw[Co][Ci][5][5][V] += ..., dbias[Co][V] += ...; the caller sums up the lanes later.
  void (*conv_backward_weights)(const LaneConv& conv, const float* x, const float* dy, float* dw,
                                float* dbias);
  void (*conv_backward_data)(const LaneConv& conv, const float* w, const float* dy, float* dx);

  void (*pool_forward)(const LanePool& pool, const float* x, float* y);
  // In place: x is replaced by its gradient, through a ReLU before the pooling if `relu`.
  void (*pool_backward)(const LanePool& pool, const float* y, const float* dy, bool relu, float* x);

  // y[O][V] = w[O][I] x[I][V] + bias, and max(y, 0) if `relu`.
  void (*fc_forward)(const LaneFc& fc, const float* x, const float* w, const float* bias, bool relu,
                     float* y);
  // dw[O][pitch] (+)= dy x, with x as the rows of `unpack`; dbias[O][V] (+)= dy. `first`: assigns
  // instead of adding.
  void (*fc_backward_weights)(const LaneFc& fc, const float* rows, size_t pitch, const float* dy,
                              bool first, float* dw, float* dbias);
  void (*fc_backward_data)(const LaneFc& fc, const float* w, const float* dy, float* dx);
  // dy = y > 0 ? dy : 0 over `size` numbers, a multiple of L.
  void (*relu_backward)(const float* y, size_t size, float* dy);

  // Softmax cross-entropy of scores[C][V]. A label below 0 is a missing image. `dscores` may be
  // null.
  LaneLoss (*softmax)(const float* scores, size_t C, const int32_t* labels, float factor,
                      float* dscores);
  // sums[i] += x[i], `size` numbers, a multiple of L.
  void (*add)(const float* x, size_t size, float* sums);
  // sums[i] = the sum of the lanes of vector i.
  void (*sum_lanes)(const float* lanes, size_t count, float* sums);
};

const LaneKernels& PlainLaneKernels();
const LaneKernels& Avx2LaneKernels();
const LaneKernels& Avx512LaneKernels();

// The fastest kernels for this level.
inline const LaneKernels& LaneKernelsFor(CpuLevel level) {
  if (level >= CpuLevel::kAvx512) return Avx512LaneKernels();
  if (level >= CpuLevel::kAvx2) return Avx2LaneKernels();
  return PlainLaneKernels();
}

}  // namespace millrace::convnets
