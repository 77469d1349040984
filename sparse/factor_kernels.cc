// SPDX-License-Identifier: Apache-2.0
#include "sparse/factor_kernels.h"

#include <algorithm>

#include "sparse/field_kernels.h"
#include "sparse/float4.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::sparse {
namespace {

float Sum(Float4 x) { return (x[0] + x[1]) + (x[2] + x[3]); }

// Factors [at, at + 4) of all rows.
template <bool kOnes>
void Margins4(const FactorRows& x, size_t at, float* sums, std::span<float> margins) {
  const uint32_t base = x.row_begin[0];
  for (size_t r = 0; r < x.rows(); ++r) {
    Float4 sum{}, squares{};
    for (uint32_t i = x.row_begin[r] - base; i < x.row_begin[r + 1] - base; ++i) {
      Float4 v = Load4(&x.factors[x.features[i] * x.width + at]);
      if constexpr (!kOnes) v *= x.values[i];
      sum += v;
      squares += v * v;
    }
    Store4(&sums[r * x.width + at], sum);
    margins[r] += 0.5f * Sum(sum * sum - squares);
  }
}

// Adds the gradient of factors [at, at + 4) without the squares of a row's own entries. At the
// first factors it also adds to `squares` the sums of e x^2.
template <bool kOnes>
void Gradient4(const FactorRows& x, size_t at, std::span<const float> residuals, const float* sums,
               float* gradient, float* squares) {
  const uint32_t base = x.row_begin[0];
  for (size_t r = 0; r < x.rows(); ++r) {
    const float residual = residuals[r];
    const Float4 change = residual * Load4(&sums[r * x.width + at]);
    for (uint32_t i = x.row_begin[r] - base; i < x.row_begin[r + 1] - base; ++i) {
      const uint32_t j = x.features[i];
      float* g = &gradient[j * x.width + at];
      Store4(g, Load4(g) + (kOnes ? change : change * x.values[i]));
      if (at == 0) squares[j] += kOnes ? residual : residual * (x.values[i] * x.values[i]);
    }
  }
}

// dV -= V sum e x^2
void SubtractSquares(const FactorRows& x, std::span<const float> squares, float* gradient) {
  for (size_t j = 0; j < squares.size(); ++j) {
    for (size_t f = 0; f < x.width; f += 4) {
      const size_t at = j * x.width + f;
      Store4(gradient + at, Load4(gradient + at) - squares[j] * Load4(x.factors + at));
    }
  }
}

void MarginsPlain(const FactorRows& x, FactorSums& sums, std::span<float> margins) {
  if (x.fields) return FieldMarginsPlain(x, sums.field_row, margins);
  sums.rows.resize(x.rows() * x.width);
  for (size_t at = 0; at < x.width; at += 4) {
    x.values ? Margins4<false>(x, at, sums.rows.data(), margins)
             : Margins4<true>(x, at, sums.rows.data(), margins);
  }
}

void GradientPlain(const FactorRows& x, std::span<const float> residuals, FactorSums& sums,
                   std::span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  if (x.fields) return AddFieldGradientPlain(x, residuals, sums.field_row, gradient.data());
  sums.features.assign(gradient.size() / x.width, 0.0f);
  const float* s = sums.rows.data();
  float *g = gradient.data(), *squares = sums.features.data();
  for (size_t at = 0; at < x.width; at += 4) {
    x.values ? Gradient4<false>(x, at, residuals, s, g, squares)
             : Gradient4<true>(x, at, residuals, s, g, squares);
  }
  SubtractSquares(x, sums.features, g);
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))

AVX2 inline float Sum8(__m256 x) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

// Factors [at, at + 8) of all rows. Two sums each hide the latency of additions.
template <bool kOnes>
AVX2 void Margins8(const FactorRows& x, size_t at, float* sums, std::span<float> margins) {
  const uint32_t base = x.row_begin[0];
  const float* factors = x.factors + at;
  for (size_t r = 0; r < x.rows(); ++r) {
    __m256 sum = _mm256_setzero_ps(), squares = sum, sum2 = sum, squares2 = sum;
    uint32_t i = x.row_begin[r] - base;
    const uint32_t end = x.row_begin[r + 1] - base;
    for (; i + 2 <= end; i += 2) {
      __m256 v = _mm256_loadu_ps(factors + x.features[i] * x.width);
      __m256 v2 = _mm256_loadu_ps(factors + x.features[i + 1] * x.width);
      if constexpr (!kOnes) {
        v = _mm256_mul_ps(v, _mm256_set1_ps(x.values[i]));
        v2 = _mm256_mul_ps(v2, _mm256_set1_ps(x.values[i + 1]));
      }
      sum = _mm256_add_ps(sum, v);
      sum2 = _mm256_add_ps(sum2, v2);
      squares = _mm256_fmadd_ps(v, v, squares);
      squares2 = _mm256_fmadd_ps(v2, v2, squares2);
    }
    if (i < end) {
      __m256 v = _mm256_loadu_ps(factors + x.features[i] * x.width);
      if constexpr (!kOnes) v = _mm256_mul_ps(v, _mm256_set1_ps(x.values[i]));
      sum = _mm256_add_ps(sum, v);
      squares = _mm256_fmadd_ps(v, v, squares);
    }
    sum = _mm256_add_ps(sum, sum2);
    squares = _mm256_add_ps(squares, squares2);
    _mm256_storeu_ps(sums + r * x.width + at, sum);
    margins[r] += 0.5f * Sum8(_mm256_fmsub_ps(sum, sum, squares));
  }
}

template <bool kOnes, bool kFirst>
AVX2 void Gradient8(const FactorRows& x, size_t at, std::span<const float> residuals,
                    const float* sums, float* gradient, float* squares) {
  const uint32_t base = x.row_begin[0];
  for (size_t r = 0; r < x.rows(); ++r) {
    const float residual = residuals[r];
    const __m256 change =
        _mm256_mul_ps(_mm256_set1_ps(residual), _mm256_loadu_ps(sums + r * x.width + at));
    const uint32_t end = x.row_begin[r + 1] - base;
    for (uint32_t i = x.row_begin[r] - base; i < end; ++i) {
      const uint32_t j = x.features[i];
      float* g = gradient + j * x.width + at;
      const __m256 old = _mm256_loadu_ps(g);
      _mm256_storeu_ps(g, kOnes ? _mm256_add_ps(old, change)
                                : _mm256_fmadd_ps(change, _mm256_set1_ps(x.values[i]), old));
      if constexpr (kFirst) {
        squares[j] += kOnes ? residual : residual * (x.values[i] * x.values[i]);
      }
    }
  }
}

AVX2 void MarginsAvx2(const FactorRows& x, FactorSums& sums, std::span<float> margins) {
  if (x.fields) return FieldMarginsAvx2(x, sums.field_row, margins);
  sums.rows.resize(x.rows() * x.width);
  float* s = sums.rows.data();
  size_t at = 0;
  for (; at + 8 <= x.width; at += 8) {
    x.values ? Margins8<false>(x, at, s, margins) : Margins8<true>(x, at, s, margins);
  }
  if (at == x.width) return;
  x.values ? Margins4<false>(x, at, s, margins) : Margins4<true>(x, at, s, margins);
}

template <bool kOnes>
AVX2 void GradientOfAll(const FactorRows& x, std::span<const float> residuals, const float* s,
                        float* g, float* squares) {
  size_t at = 0;
  for (; at + 8 <= x.width; at += 8) {
    at == 0 ? Gradient8<kOnes, true>(x, at, residuals, s, g, squares)
            : Gradient8<kOnes, false>(x, at, residuals, s, g, squares);
  }
  if (at < x.width) Gradient4<kOnes>(x, at, residuals, s, g, squares);
}

AVX2 void GradientAvx2(const FactorRows& x, std::span<const float> residuals, FactorSums& sums,
                       std::span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  if (x.fields) return AddFieldGradientAvx2(x, residuals, sums.field_row, gradient.data());
  if (x.fields) return AddFieldGradientPlain(x, residuals, sums.field_row, gradient.data());
  sums.features.assign(gradient.size() / x.width, 0.0f);
  const float* s = sums.rows.data();
  float *g = gradient.data(), *squares = sums.features.data();
  x.values ? GradientOfAll<false>(x, residuals, s, g, squares)
           : GradientOfAll<true>(x, residuals, s, g, squares);
  SubtractSquares(x, sums.features, g);
}
#endif

}  // namespace

const FactorKernels& FactorKernelsFor(CpuLevel level) {
  static constexpr FactorKernels plain{"sse2", MarginsPlain, GradientPlain};
#if defined(__x86_64__)
  static constexpr FactorKernels avx2{"avx2", MarginsAvx2, GradientAvx2};
  if (level >= CpuLevel::kAvx2) return avx2;
#endif
  (void)level;
  return plain;
}

}  // namespace millrace::sparse
