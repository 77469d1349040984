// SPDX-License-Identifier: Apache-2.0
// The products of a training step that belong to the factors of a factorization machine. With the
// factors V[features][k] of a batch's features, residuals e = dloss/dm, and i over the entries of
// row r:
//
//   S[r]  = sum_i x_i V[i]                                            [rows][k]
//   m[r] += 1/2 sum_f (S[r][f]^2 - sum_i (x_i V[i][f])^2)
//   dV[j] = sum_{r, i = j} e[r] x_i (S[r] - x_i V[j])
//         = sum e x S  -  V[j] sum e x^2                              [features][k]
//
// Each row reads and writes k floats per entry, from arrays that fit into the cache. A field-aware
// machine (rows with fields) has products of its own: field_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/base/cpu.h"
#include "io/base/pod_vector.h"
#include "io/batch/csr_batch.h"
#include "sparse/factors.h"

namespace millrace::sparse {

// Some rows whose entries are numbers of features.
struct FactorRows {
  std::span<const uint32_t> row_begin;  // rows + 1; entry i has features[i - row_begin[0]]
  const uint32_t* features = nullptr;
  const float* values = nullptr;   // null: all ones
  const float* factors = nullptr;  // [features][width]
  size_t width = 0;
  const uint16_t* fields = nullptr;  // of each entry, below num_fields; null: no ffm
  size_t num_fields = 1;

  size_t rows() const { return row_begin.size() - 1; }
};

// The present row of an ffm: what its kernels share.
struct FieldRowMemory {
  PodVector<uint16_t> number;    // by field: 1 + its number among the row's fields, 0 elsewhere
  PodVector<uint32_t> fields;    // of the row, in the order of their first entries
  PodVector<uint32_t> local;     // of each entry: the number of its field
  PodVector<const float*> from;  // by number: factors, or their sums
  PodVector<uint32_t> offset;    // by number: where in `from` are the factors for this field
  PodVector<float> sums, zeros;
};

// Memory of a step, which is kept from margins to gradient.
struct FactorSums {
  PodVector<float> rows;      // S
  PodVector<float> features;  // sum e x^2
  FieldRowMemory field_row;
};

struct FactorKernels {
  const char* instructions;
  // Adds the part of the factors to `margins`.
  void (*margins)(const FactorRows& rows, FactorSums& sums, std::span<float> margins);
  // Overwrites `gradient`, which has `width` floats for each feature. `sums` are those of margins.
  void (*gradient)(const FactorRows& rows, std::span<const float> residuals, FactorSums& sums,
                   std::span<float> gradient);
};

// Four floats at a time (SSE2), and eight with AVX2. They agree within rounding; each is
// deterministic. 16 floats at a time (AVX-512) would hold two entries of k = 8: the additions into
// two different places of the gradient undo the gain.
const FactorKernels& FactorKernelsFor(CpuLevel level = DetectCpuLevel());

// The fields of the entries from `first` on, as FactorRows has them.
inline const uint16_t* FieldsFor(const FactorShape& shape, const io::CsrBatch& batch,
                                 size_t first = 0) {
  if (shape.kind != ModelKind::kFfm || batch.nnz() == 0) return nullptr;
  CHECK(batch.fields.size() == batch.nnz());
  return batch.fields.data() + first;
}

// Margins for scoring, a few rows at a time. `read(first, features, out)` writes the factors of the
// entries [first, first + count) to `out`.
template <typename Read>
void AddFactorMargins(const io::CsrBatch& batch, const FactorShape& shape, Read read,
                      std::span<float> margins) {
  constexpr size_t kFloats = 1 << 16;
  const size_t width = shape.width();
  const size_t max_entries = kFloats / width;
  PodVector<float> factors;
  PodVector<uint32_t> numbers;
  FactorSums sums;
  for (size_t row = 0; row < batch.rows();) {
    const uint32_t first = batch.row_begin[row];
    size_t end = row + 1;
    while (end < batch.rows() && batch.row_begin[end + 1] - first <= max_entries) ++end;
    const size_t count = batch.row_begin[end] - first;
    factors.resize(count * width);
    while (numbers.size() < count) numbers.push_back(static_cast<uint32_t>(numbers.size()));
    read(first, count, factors.data());
    FactorKernelsFor().margins(
        {.row_begin = std::span(batch.row_begin.data() + row, end - row + 1),
         .features = numbers.data(),
         .values = batch.values.empty() ? nullptr : batch.values.data() + first,
         .factors = factors.data(),
         .width = width,
         .fields = FieldsFor(shape, batch, first),
         .num_fields = shape.fields},
        sums, margins.subspan(row, end - row));
    row = end;
  }
}

}  // namespace millrace::sparse
