// SPDX-License-Identifier: Apache-2.0
// The three products of a training step, over a compacted batch X of `rows` x `keys`:
//
//   Margins           m = X w           m[rows], w[keys]
//   LossAndResiduals  e = weight * (sigmoid(m) - y), and the sum of weight * loss
//   Gradient          g = X^T e         g[keys]: only the columns of the batch
//
// Three implementations: plain loops (the reference of the tests), native SIMD with the
// instructions chosen at run time, and MKL's sparse BLAS. They agree within rounding; each is
// deterministic.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "io/base/cpu.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"

namespace millrace::sparse {

// One implementation. The caller guarantees sizes: margins and residuals have batch.rows() entries,
// weights and gradient batch.keys.size(), and every col is below that.
struct Kernels {
  const char* instructions;  // "plain", "avx2", "avx512", "mkl"
  void (*margins)(const io::CsrBatch& batch, std::span<const float> weights,
                  std::span<float> margins);
  // Overwrites `gradient`.
  void (*gradient)(const io::CsrBatch& batch, std::span<const float> residuals,
                   std::span<float> gradient);
  // `example_weights` may be empty (ones). Returns the sum of the losses. `residuals` may be the
  // memory of `margins`.
  double (*loss_and_residuals)(std::span<const float> margins, std::span<const float> labels,
                               std::span<const float> example_weights, std::span<float> residuals);
};

const Kernels& PlainKernels();
// The fastest level on this machine, which is not always the highest one of the processor.
CpuLevel FastestNativeLevel();
const Kernels& NativeKernels(CpuLevel level = FastestNativeLevel());
// Null if Millrace was built without MKL or MKL is not installed.
const Kernels* MklKernels();

// Accepts "native", "auto" (the same), "mkl" and "plain".
Result<const Kernels*> KernelsByName(std::string_view name);

// The logistic loss of one example, stable at any margin.
//
//   margin m = w . x,   y in {0, 1}
//   loss(m, y)  = log(1 + exp(-s m)),  s = +1 for y = 1 and -1 for y = 0
//   residual(m, y) = d loss / d m = sigmoid(m) - y
inline float Sigmoid(float margin) {
  const float e = std::exp(-std::abs(margin));  // at most 1: never overflows
  return margin >= 0 ? 1 / (1 + e) : e / (1 + e);
}

inline float LogisticLoss(float margin, float label) {
  const float m = label > 0 ? margin : -margin;
  return std::max(-m, 0.f) + std::log1p(std::exp(-std::abs(m)));
}

// The intercept is part of every row with the value 1.
inline void AddIntercept(float intercept, std::span<float> margins) {
  for (float& margin : margins) margin += intercept;
}
// g = sum of e[rows], in four parallel sums.
inline float InterceptGradient(std::span<const float> residuals) {
  double sum[4] = {};
  size_t r = 0;
  for (; r + 4 <= residuals.size(); r += 4) {
    for (size_t k = 0; k < 4; ++k) sum[k] += static_cast<double>(residuals[r + k]);
  }
  for (; r < residuals.size(); ++r) sum[0] += static_cast<double>(residuals[r]);
  return static_cast<float>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

inline float LogisticResidual(float margin, float label) { return Sigmoid(margin) - label; }

}  // namespace millrace::sparse
