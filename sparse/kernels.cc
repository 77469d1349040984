// SPDX-License-Identifier: Apache-2.0
#include "sparse/kernels.h"

#include <algorithm>
#include <string>

namespace millrace::sparse {
namespace {

// m[r] = sum over row r of value * w[col], summed in double: the reference of the tests
void Margins(const io::CsrBatch& batch, std::span<const float> weights, std::span<float> margins) {
  for (size_t r = 0; r < batch.rows(); ++r) {
    double sum = 0;
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      const double value = batch.values.empty() ? 1.0 : static_cast<double>(batch.values[i]);
      sum += value * static_cast<double>(weights[batch.cols[i]]);
    }
    margins[r] = static_cast<float>(sum);
  }
}

// g[col] = sum over all rows of value * e[r]
void Gradient(const io::CsrBatch& batch, std::span<const float> residuals,
              std::span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t r = 0; r < batch.rows(); ++r) {
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      gradient[batch.cols[i]] += (batch.values.empty() ? 1.0f : batch.values[i]) * residuals[r];
    }
  }
}

double LossAndResiduals(std::span<const float> margins, std::span<const float> labels,
                        std::span<const float> example_weights, std::span<float> residuals) {
  double loss = 0;
  for (size_t r = 0; r < margins.size(); ++r) {
    const float weight = example_weights.empty() ? 1.0f : example_weights[r];
    const float margin = margins[r];
    loss += static_cast<double>(weight * LogisticLoss(margin, labels[r]));
    residuals[r] = weight * LogisticResidual(margin, labels[r]);
  }
  return loss;
}

}  // namespace

const Kernels& PlainKernels() {
  static constexpr Kernels kernels{"plain", Margins, Gradient, LossAndResiduals};
  return kernels;
}

Result<const Kernels*> KernelsByName(std::string_view name) {
  if (name == "auto" || name == "native") return &NativeKernels();
  if (name == "plain") return &PlainKernels();
  if (name == "mkl" && MklKernels() != nullptr) return MklKernels();
  if (name == "mkl") {
    return Invalid(
        "kernel mkl: expected Intel MKL (at run time libmkl_rt.so of the package libmkl-rt, at "
        "build time libmkl-dev), found none: install it, or use native");
  }
  return Invalid("kernel: expected auto, native, mkl or plain, found '" + std::string(name) + "'");
}

}  // namespace millrace::sparse
