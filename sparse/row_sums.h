// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a batch, for any storage of the weights.
#pragma once

#include <cstdint>

#include "io/batch/csr_batch.h"
#include "sparse/float4.h"

namespace millrace::sparse::internal {

// margins[r] = sum over the entries i of row r of value * weight(i), in four parallel sums. A
// weight that is expensive to compute may provide weight.Four(i), which computes four.
// before_row(r) is called before each row.
template <bool kOnes, typename Weight, typename BeforeRow>
void SumRowsOf(const io::CsrBatch& batch, float* margins, Weight weight, BeforeRow before_row) {
  const uint32_t* row_begin = batch.row_begin.data();
  const float* values = batch.values.data();
  const size_t rows = batch.rows();
  const auto term = [=](uint32_t i) { return kOnes ? weight(i) : values[i] * weight(i); };
  for (size_t r = 0; r < rows; ++r) {
    before_row(r);
    uint32_t i = row_begin[r];
    const uint32_t end = row_begin[r + 1];
    float a = 0, b = 0, c = 0, d = 0;
    if constexpr (requires { weight.Four(i); }) {
      Float4 sum{};
      for (; i + 4 <= end; i += 4) {
        sum += kOnes ? weight.Four(i) : Load4(values + i) * weight.Four(i);
      }
      a = sum[0], b = sum[1], c = sum[2], d = sum[3];
    } else {
      for (; i + 4 <= end; i += 4) {
        a += term(i);
        b += term(i + 1);
        c += term(i + 2);
        d += term(i + 3);
      }
    }
    for (; i < end; ++i) a += term(i);
    margins[r] = (a + b) + (c + d);
  }
}

template <typename Weight, typename BeforeRow>
void SumRows(const io::CsrBatch& batch, float* margins, Weight weight, BeforeRow before_row) {
  if (batch.values.empty()) return SumRowsOf<true>(batch, margins, weight, before_row);
  SumRowsOf<false>(batch, margins, weight, before_row);
}

}  // namespace millrace::sparse::internal
