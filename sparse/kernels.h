// The three products of a training step, over a compacted batch X of `rows` x `keys`:
//
//   Margins         m = X w           m[rows], w[keys]
//   LossAndResiduals   e = weight * (sigmoid(m) - y), and the sum of weight * loss
//   Gradient        g = X^T e         g[keys]: the touched columns only
//
// Three implementations: plain loops (the twin that the others answer to), native SIMD with the
// instructions chosen at run time, and MKL's sparse BLAS. They agree within rounding; each by
// itself gives the same bits every time.
#pragma once

#include <span>
#include <string_view>

#include "io/base/cpu.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"

namespace millrace::sparse {

// Functions that belong together. Sizes are the caller's contract: margins and residuals have
// batch.rows() entries, weights and gradient batch.keys.size() (every col is below it).
struct Kernels {
  const char* instructions;  // "plain", "avx2", "avx512", "mkl"
  void (*margins)(const io::CsrBatch& batch, std::span<const float> weights,
                  std::span<float> margins);
  // Overwrites `gradient`.
  void (*gradient)(const io::CsrBatch& batch, std::span<const float> residuals,
                   std::span<float> gradient);
  // `example_weights` may be empty (ones). Returns the sum of the losses; residuals may be the
  // margins' own memory.
  double (*loss_and_residuals)(std::span<const float> margins, std::span<const float> labels,
                               std::span<const float> example_weights, std::span<float> residuals);
};

const Kernels& PlainKernels();
// The level that is the fastest here, which is not always the highest that the processor has.
CpuLevel FastestNativeLevel();
const Kernels& NativeKernels(CpuLevel level = FastestNativeLevel());
// Null when built without MKL, or when it is not installed here.
const Kernels* MklKernels();

// "native" (which "auto" stands for), "mkl" or "plain".
Result<const Kernels*> KernelsByName(std::string_view name);

}  // namespace millrace::sparse
