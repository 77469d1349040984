// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "sparse/kernels.h"
#include "sparse/row_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::sparse {
namespace {

using io::CsrBatch;

#if defined(__x86_64__)

// exp(-t) for t >= 0 and log1p(e) for 0 <= e <= 1, eight floats at once. Polynomials in single
// precision: the tests hold them to 4e-7 of the library's functions.
//
//   exp(-t) = 2^(-t log2 e) = 2^n 2^f, n integer, |f| <= 1/2;
//             2^f by its Taylor polynomial of degree 6
//   log1p(e) = 2 atanh(s), s = e / (2 + e) <= 1/3;
//             2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...)
#define AVX2 __attribute__((target("avx2,fma")))

AVX2 inline __m256 ExpMinus(__m256 t) {
  // With this order of operands the minimum of a NaN is the NaN.
  const __m256 x =
      _mm256_mul_ps(_mm256_min_ps(_mm256_set1_ps(87.0f), t), _mm256_set1_ps(-1.44269504f));
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 f = _mm256_mul_ps(_mm256_sub_ps(x, n), _mm256_set1_ps(0.693147181f));
  __m256 p = _mm256_set1_ps(1.0f / 720);
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
  const __m256i power =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

AVX2 inline __m256 Log1p(__m256 e) {
  const __m256 s = _mm256_div_ps(e, _mm256_add_ps(e, _mm256_set1_ps(2.0f)));
  const __m256 q = _mm256_mul_ps(s, s);
  __m256 p = _mm256_set1_ps(1.0f / 13);
  for (const float c : {1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f}) {
    p = _mm256_fmadd_ps(p, q, _mm256_set1_ps(c));
  }
  return _mm256_mul_ps(_mm256_add_ps(s, s), p);
}

// Eight examples: returns their losses, stores their residuals.
AVX2 inline __m256 EightLosses(__m256 margin, __m256 label, __m256 weight, float* residuals) {
  const __m256 zero = _mm256_setzero_ps();
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), margin);
  const __m256 e = ExpMinus(magnitude);
  const __m256 small = _mm256_div_ps(e, _mm256_add_ps(one, e));  // sigmoid(-|m|)
  const __m256 negative = _mm256_cmp_ps(margin, zero, _CMP_LT_OQ);
  const __m256 sigmoid = _mm256_blendv_ps(_mm256_sub_ps(one, small), small, negative);
  _mm256_storeu_ps(residuals, _mm256_mul_ps(weight, _mm256_sub_ps(sigmoid, label)));
  // max(-m, 0) for y = 1 and max(m, 0) for y = 0
  const __m256 flip = _mm256_and_ps(_mm256_cmp_ps(label, zero, _CMP_GT_OQ), _mm256_set1_ps(-0.0f));
  const __m256 hinge = _mm256_max_ps(_mm256_xor_ps(margin, flip), zero);
  return _mm256_mul_ps(weight, _mm256_add_ps(hinge, Log1p(e)));
}

// Sums of losses in double, four and four.
struct LossSums {
  __m256d low, high;
};

AVX2 inline LossSums Add(LossSums sums, __m256 losses) {
  return {_mm256_add_pd(sums.low, _mm256_cvtps_pd(_mm256_castps256_ps128(losses))),
          _mm256_add_pd(sums.high, _mm256_cvtps_pd(_mm256_extractf128_ps(losses, 1)))};
}

// The last examples, fewer than eight. The remaining vector lanes have weight 0.
AVX2 inline __m256 LastLosses(std::span<const float> margins, const float* labels,
                              const float* example_weights, float* residuals) {
  alignas(32) std::array<float, 8> m{}, y{}, w{}, e;
  std::copy_n(margins.data(), margins.size(), m.data());
  std::copy_n(labels, margins.size(), y.data());
  if (example_weights) {
    std::copy_n(example_weights, margins.size(), w.data());
  } else {
    std::fill_n(w.data(), margins.size(), 1.0f);
  }
  const __m256 losses = EightLosses(_mm256_load_ps(m.data()), _mm256_load_ps(y.data()),
                                    _mm256_load_ps(w.data()), e.data());
  std::copy_n(e.data(), margins.size(), residuals);
  return losses;
}

AVX2 double LossAndResidualsAvx2(std::span<const float> margins, std::span<const float> labels,
                                 std::span<const float> example_weights,
                                 std::span<float> residuals) {
  LossSums sums{_mm256_setzero_pd(), _mm256_setzero_pd()};
  const float* weights = example_weights.empty() ? nullptr : example_weights.data();
  size_t r = 0;
  for (; r + 8 <= margins.size(); r += 8) {
    const __m256 weight = weights ? _mm256_loadu_ps(weights + r) : _mm256_set1_ps(1.0f);
    sums = Add(sums, EightLosses(_mm256_loadu_ps(&margins[r]), _mm256_loadu_ps(&labels[r]), weight,
                                 &residuals[r]));
  }
  if (r < margins.size()) {
    sums = Add(sums, LastLosses(margins.subspan(r), &labels[r], weights ? weights + r : nullptr,
                                &residuals[r]));
  }
  alignas(32) std::array<double, 4> parts;
  _mm256_store_pd(parts.data(), _mm256_add_pd(sums.low, sums.high));
  return parts[0] + parts[1] + parts[2] + parts[3];
}

void MarginsLoads(const CsrBatch& batch, std::span<const float> weights, std::span<float> margins) {
  const uint32_t* cols = batch.cols.data();
  const float* w = weights.data();
  internal::SumRows(
      batch, margins.data(), [=](uint32_t i) { return w[cols[i]]; }, [](size_t) {});
}

// Sixteen weights per gather.
__attribute__((target("avx512f,avx512vl"))) void MarginsGathers(const CsrBatch& batch,
                                                                std::span<const float> weights,
                                                                std::span<float> margins) {
  const uint32_t* cols = batch.cols.data();
  const float* values = batch.values.data();
  for (size_t r = 0; r < batch.rows(); ++r) {
    const uint32_t end = batch.row_begin[r + 1];
    __m512 sum = _mm512_setzero_ps();
    for (uint32_t i = batch.row_begin[r]; i < end; i += 16) {
      const uint32_t left = end - i;
      const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xffffu : (1u << left) - 1);
      const __m512i at = _mm512_maskz_loadu_epi32(lanes, cols + i);
      const __m512 w = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, at, weights.data(), 4);
      sum = batch.values.empty()
                ? _mm512_add_ps(sum, w)
                : _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, values + i), w, sum);
    }
    margins[r] = _mm512_reduce_add_ps(sum);
  }
}

#endif  // x86-64

template <bool kOnes>
void AddRows(const CsrBatch& batch, const float* residuals, float* gradient) {
  const uint32_t* cols = batch.cols.data();
  const float* values = batch.values.data();
  for (size_t r = 0; r < batch.rows(); ++r) {
    const float residual = residuals[r];
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      gradient[cols[i]] += kOnes ? residual : values[i] * residual;
    }
  }
}

void GradientNative(const CsrBatch& batch, std::span<const float> residuals,
                    std::span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  if (batch.values.empty()) return AddRows<true>(batch, residuals.data(), gradient.data());
  AddRows<false>(batch, residuals.data(), gradient.data());
}

}  // namespace

CpuLevel FastestNativeLevel() {
  return HasFastGathers() ? DetectCpuLevel() : std::min(DetectCpuLevel(), CpuLevel::kAvx2);
}

const Kernels& NativeKernels(CpuLevel level) {
#if defined(__x86_64__)
  static constexpr Kernels avx2{"avx2", MarginsLoads, GradientNative, LossAndResidualsAvx2};
  static constexpr Kernels avx512{"avx512", MarginsGathers, GradientNative, LossAndResidualsAvx2};
  if (level >= CpuLevel::kAvx512) return avx512;
  if (level >= CpuLevel::kAvx2) return avx2;
#endif
  (void)level;
  return PlainKernels();
}

}  // namespace millrace::sparse
