// SPDX-License-Identifier: Apache-2.0
// The products of a field-aware factorization machine. With the blocks v_i[fields][k] of a batch's
// features, residuals e = dloss/dm, f_i the field of entry i, and i, j over the entries of row r:
//
//   m[r]      += sum_{i<j} <v_i[f_j], v_j[f_i]> x_i x_j
//   dv_i[b]    = sum_r e[r] x_i sum_{j != i, f_j = b} x_j v_j[f_i]
//
// With S_a[b] = sum over the entries i of field a of x_i v_i[b], these are sums over the fields
// that the row has instead of over pairs of entries:
//
//   m[r]      += sum_{a<b} <S_a[b], S_b[a]> + 1/2 sum_a (S_a[a]^2 - sum_{f_i = a} (x_i v_i[a])^2)
//   dv_i[b]    = sum_r e[r] x_i S_b[f_i]                    b != f_i
//   dv_i[f_i]  = sum_r e[r] x_i (S_{f_i}[f_i] - x_i v_i[f_i])
//
// A row with one entry for each of its fields, as those of one-hot columns, needs no sums: S_a is
// x_i times the block itself. 39 fields with k = 4 are 24 kB of factors a row: they fit into the
// first cache, where the transposed access to S_b[a] is cheap.
#pragma once

#include <span>

#include "sparse/factor_kernels.h"

namespace millrace::sparse {

// The functions of FactorKernels (factor_kernels.h) for rows with fields. Gradients are added.
void FieldMarginsPlain(const FactorRows& rows, FieldRowMemory& memory, std::span<float> margins);
void AddFieldGradientPlain(const FactorRows& rows, std::span<const float> residuals,
                           FieldRowMemory& memory, float* gradient);
#if defined(__x86_64__)
void FieldMarginsAvx2(const FactorRows& rows, FieldRowMemory& memory, std::span<float> margins);
void AddFieldGradientAvx2(const FactorRows& rows, std::span<const float> residuals,
                          FieldRowMemory& memory, float* gradient);
#endif

}  // namespace millrace::sparse
