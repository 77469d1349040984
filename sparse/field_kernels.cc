// SPDX-License-Identifier: Apache-2.0
#include "sparse/field_kernels.h"

#include <algorithm>
#include <utility>

#include "sparse/float4.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::sparse {
namespace {

float Sum(Float4 x) { return (x[0] + x[1]) + (x[2] + x[3]); }

// Row r as its fields a = 0, 1, ..., in the order in which they appear. The factors of field a for
// field b are those at from[a] + offset[b], times the values of both.
class FieldRow {
 public:
  FieldRow(const FactorRows& x, FieldRowMemory& memory)
      : x_(x), m_(memory), k_(x.width / x.num_fields) {
    if (m_.number.size() < x.num_fields) m_.number.assign(x.num_fields, 0);
    if (m_.zeros.size() < x.width) m_.zeros.assign(x.width, 0.0f);
  }

  void Read(size_t r) {
    begin_ = x_.row_begin[r] - x_.row_begin[0];
    end_ = x_.row_begin[r + 1] - x_.row_begin[0];
    FindFields();
    // A row of ones has the same bits in any batch.
    has_values_ = has_one_each_ && x_.values &&
                  std::any_of(x_.values + begin_, x_.values + end_, [](float v) { return v != 1; });
    const size_t fields = size();
    m_.from.resize(fields);
    m_.offset.resize(fields);
    if (has_one_each_) {
      for (size_t a = 0; a < fields; ++a) {
        m_.from[a] = BlockOf(begin_ + a);
        m_.offset[a] = static_cast<uint32_t>(m_.fields[a] * k_);
      }
    } else {
      AddUp();
    }
  }

  size_t size() const { return m_.fields.size(); }
  size_t k() const { return k_; }
  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }
  // Whether the factors for the row's fields lie one behind the other, in blocks and sums alike.
  bool is_dense() const { return is_consecutive_; }
  const float* const* from() const { return m_.from.data(); }
  const uint32_t* offset() const { return m_.offset.data(); }
  // Null: all ones.
  const float* values() const { return has_values_ ? x_.values + begin_ : nullptr; }

  float Value(uint32_t i) const { return x_.values ? x_.values[i] : 1.0f; }
  const float* BlockOf(uint32_t i) const { return x_.factors + x_.features[i] * x_.width; }
  // The number of the entry's field among those of the row.
  size_t NumberOf(uint32_t i) const { return has_one_each_ ? i - begin_ : m_.local[i - begin_]; }
  // Where in a block are the factors for field a.
  size_t BlockOffset(size_t a) const { return m_.fields[a] * k_; }

  // What the entries of each field contribute to each other: 1/2 sum_a (S^2 - sum (x v)^2).
  float WithinFields() const {
    if (has_one_each_) return 0;
    Float4 sum{};
    for (size_t a = 0; a < size(); ++a) {
      for (size_t f = 0; f < k_; f += 4) {
        const Float4 s = Load4(m_.from[a] + m_.offset[a] + f);
        sum += s * s;
      }
    }
    for (uint32_t i = begin_; i < end_; ++i) {
      const float* v = BlockOf(i) + BlockOffset(NumberOf(i));
      for (size_t f = 0; f < k_; f += 4) {
        const Float4 xv = Value(i) * Load4(v + f);
        sum -= xv * xv;
      }
    }
    return 0.5f * Sum(sum);
  }

  // The gradient of entry i for its own field: residual x_i (S - x_i v_i).
  void AddWithinField(uint32_t i, float scale, float* gradient) const {
    if (has_one_each_) return;
    const size_t a = NumberOf(i), own = BlockOffset(a);
    const float *v = BlockOf(i) + own, *sums = m_.sums.data() + a * size() * k_ + a * k_;
    for (size_t f = 0; f < k_; f += 4) {
      Store4(gradient + own + f,
             Load4(gradient + own + f) + scale * (Load4(sums + f) - Value(i) * Load4(v + f)));
    }
  }

  // Calls add(from) with zeros in place of field a's own factors.
  template <typename Add>
  void WithoutField(size_t a, const Add& add) {
    const float* const own = std::exchange(m_.from[a], m_.zeros.data());
    add(m_.from.data());
    m_.from[a] = own;
  }

 private:
  void FindFields() {
    m_.fields.clear();
    m_.local.resize(end_ - begin_);
    has_one_each_ = is_consecutive_ = true;
    for (uint32_t i = begin_; i < end_; ++i) {
      const uint16_t field = x_.fields[i];
      uint16_t& number = m_.number[field];
      if (number == 0) {
        if (!m_.fields.empty()) is_consecutive_ &= field == m_.fields.back() + 1;
        m_.fields.push_back(field);
        number = static_cast<uint16_t>(m_.fields.size());
      } else {
        has_one_each_ = false;
      }
      m_.local[i - begin_] = number - 1u;
    }
    for (const uint32_t field : m_.fields) m_.number[field] = 0;
  }

  void AddUp() {
    const size_t fields = size();
    m_.sums.assign(fields * fields * k_, 0.0f);
    for (uint32_t i = begin_; i < end_; ++i) {
      float* sums = m_.sums.data() + m_.local[i - begin_] * fields * k_;
      const float *block = BlockOf(i), value = Value(i);
      for (size_t b = 0; b < fields; ++b, sums += k_) {
        const float* v = block + BlockOffset(b);
        for (size_t f = 0; f < k_; f += 4) Store4(sums + f, Load4(sums + f) + value * Load4(v + f));
      }
    }
    for (size_t a = 0; a < fields; ++a) {
      m_.from[a] = m_.sums.data() + a * fields * k_;
      m_.offset[a] = static_cast<uint32_t>(a * k_);
    }
  }

  const FactorRows& x_;
  FieldRowMemory& m_;
  size_t k_;
  uint32_t begin_ = 0, end_ = 0;  // entries
  bool has_one_each_ = false;     // entry for each field
  bool has_values_ = false;       // other than 1, by field
  bool is_consecutive_ = false;   // fields
};

// sum_{a<b} <from[a][b], from[b][a]>
template <bool kOnes>
float PairSum4(const FieldRow& row) {
  const float *const *from = row.from(), *values = row.values();
  const uint32_t* offset = row.offset();
  Float4 total{};
  for (size_t a = 0; a + 1 < row.size(); ++a) {
    Float4 sum{};
    for (size_t b = a + 1; b < row.size(); ++b) {
      const float *ab = from[a] + offset[b], *ba = from[b] + offset[a];
      for (size_t f = 0; f < row.k(); f += 4) {
        const Float4 product = Load4(ab + f) * Load4(ba + f);
        sum += kOnes ? product : product * values[b];
      }
    }
    total += kOnes ? sum : sum * values[a];
  }
  return Sum(total);
}

// gradient[b] += scale * from[b][a] for each field b. `gradient` is that of an entry of field a.
template <bool kOnes>
void AddFields4(const FieldRow& row, const float* const* from, size_t a, float scale,
                float* gradient) {
  const float* values = row.values();
  const uint32_t at = row.offset()[a];
  for (size_t b = 0; b < row.size(); ++b) {
    float* g = gradient + row.BlockOffset(b);
    const float factor = kOnes ? scale : scale * values[b];
    for (size_t f = 0; f < row.k(); f += 4) {
      Store4(g + f, Load4(g + f) + factor * Load4(from[b] + at + f));
    }
  }
}

// Calls add(from, a, scale, gradient) for each entry with a gradient.
template <typename Add>
inline __attribute__((always_inline)) void AddRowGradient(const FactorRows& x, FieldRow& row,
                                                          float residual, float* gradient,
                                                          const Add& add) {
  for (uint32_t i = row.begin(); i < row.end(); ++i) {
    float* g = gradient + x.features[i] * x.width;
    const size_t a = row.NumberOf(i);
    const float scale = residual * row.Value(i);
    row.WithoutField(a, [&](const float* const* from) { add(from, a, scale, g); });
    row.AddWithinField(i, scale, g);
  }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))

AVX2 inline float Sum8(__m256 x) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

AVX2 inline __m256 TwoFields(const float* const* from, uint32_t at) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from[0] + at)),
                              _mm_loadu_ps(from[1] + at), 1);
}

// k = 4, consecutive fields, values of 1: the factors for two fields lie together.
AVX2 float PairSumOfTwo(const FieldRow& row) {
  const float* const* from = row.from();
  const uint32_t* offset = row.offset();
  const size_t fields = row.size();
  __m256 sum = _mm256_setzero_ps(), sum2 = sum;
  __m128 last = _mm_setzero_ps();
  for (size_t a = 0; a + 1 < fields; ++a) {
    const float* va = from[a] + offset[0];
    const uint32_t at = offset[a];
    size_t b = a + 1;
    for (; b + 4 <= fields; b += 4) {
      sum = _mm256_fmadd_ps(_mm256_loadu_ps(va + 4 * b), TwoFields(from + b, at), sum);
      sum2 = _mm256_fmadd_ps(_mm256_loadu_ps(va + 4 * b + 8), TwoFields(from + b + 2, at), sum2);
    }
    if (b + 2 <= fields) {
      sum = _mm256_fmadd_ps(_mm256_loadu_ps(va + 4 * b), TwoFields(from + b, at), sum);
      b += 2;
    }
    if (b < fields) {
      last = _mm_fmadd_ps(_mm_loadu_ps(va + 4 * b), _mm_loadu_ps(from[b] + at), last);
    }
  }
  sum = _mm256_add_ps(sum, sum2);
  return Sum8(_mm256_add_ps(sum, _mm256_zextps128_ps256(last)));
}

AVX2 void AddTwoFields(const FieldRow& row, const float* const* from, size_t a, float scale,
                       float* gradient) {
  const uint32_t at = row.offset()[a];
  const size_t fields = row.size();
  float* g = gradient + row.BlockOffset(0);
  const __m256 scales = _mm256_set1_ps(scale);
  size_t b = 0;
  for (; b + 2 <= fields; b += 2) {
    _mm256_storeu_ps(g + 4 * b,
                     _mm256_fmadd_ps(scales, TwoFields(from + b, at), _mm256_loadu_ps(g + 4 * b)));
  }
  if (b == fields) return;
  _mm_storeu_ps(g + 4 * b, _mm_fmadd_ps(_mm256_castps256_ps128(scales), _mm_loadu_ps(from[b] + at),
                                        _mm_loadu_ps(g + 4 * b)));
}
#endif

}  // namespace

void FieldMarginsPlain(const FactorRows& x, FieldRowMemory& memory, std::span<float> margins) {
  FieldRow row(x, memory);
  for (size_t r = 0; r < x.rows(); ++r) {
    row.Read(r);
    margins[r] += row.values() ? PairSum4<false>(row) : PairSum4<true>(row);
    margins[r] += row.WithinFields();
  }
}

void AddFieldGradientPlain(const FactorRows& x, std::span<const float> residuals,
                           FieldRowMemory& memory, float* gradient) {
  FieldRow row(x, memory);
  for (size_t r = 0; r < x.rows(); ++r) {
    row.Read(r);
    AddRowGradient(x, row, residuals[r], gradient,
                   [&](const float* const* from, size_t a, float scale, float* g) {
                     row.values() ? AddFields4<false>(row, from, a, scale, g)
                                  : AddFields4<true>(row, from, a, scale, g);
                   });
  }
}

#if defined(__x86_64__)
AVX2 void FieldMarginsAvx2(const FactorRows& x, FieldRowMemory& memory, std::span<float> margins) {
  FieldRow row(x, memory);
  for (size_t r = 0; r < x.rows(); ++r) {
    row.Read(r);
    if (row.k() == 4 && row.is_dense() && !row.values()) {
      margins[r] += PairSumOfTwo(row);
    } else {
      margins[r] += row.values() ? PairSum4<false>(row) : PairSum4<true>(row);
    }
    margins[r] += row.WithinFields();
  }
}

AVX2 void AddFieldGradientAvx2(const FactorRows& x, std::span<const float> residuals,
                               FieldRowMemory& memory, float* gradient) {
  FieldRow row(x, memory);
  for (size_t r = 0; r < x.rows(); ++r) {
    row.Read(r);
    const bool by_two = row.k() == 4 && row.is_dense() && !row.values();
    AddRowGradient(x, row, residuals[r], gradient,
                   [&](const float* const* from, size_t a, float scale, float* g) {
                     if (by_two) return AddTwoFields(row, from, a, scale, g);
                     row.values() ? AddFields4<false>(row, from, a, scale, g)
                                  : AddFields4<true>(row, from, a, scale, g);
                   });
  }
}
#endif

}  // namespace millrace::sparse
