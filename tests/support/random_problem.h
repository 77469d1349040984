// SPDX-License-Identifier: Apache-2.0
// Random batches, with all corner cases of shapes.
#pragma once

#include <cmath>
#include <vector>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"
#include "io/batch/key_compactor.h"

namespace millrace::test {

struct Problem {
  io::CsrBatch batch;  // compacted
  std::vector<float> weights;
};

inline float Normalish(Random& random) {
  return static_cast<float>(random.Uniform() + random.Uniform() + random.Uniform() - 1.5);
}

// Empty batches, empty rows, one huge row, repeated indices in a row, with values or all ones, with
// example weights or without: the seed decides.
inline Problem RandomProblem(uint64_t seed) {
  Random random(seed);
  Problem p;
  const size_t rows = seed % 17 == 0 ? 0 : random.Below(200);
  const uint64_t features = 1 + random.Below(seed % 3 == 0 ? 5 : 3000);
  const bool ones = seed % 2 == 0;
  p.batch.row_begin.assign(1, 0);
  for (size_t r = 0; r < rows; ++r) {
    size_t nnz = random.Below(4) == 0 ? 0 : random.Below(80);
    if (seed % 11 == 1 && r == rows / 2) nnz = 20000;
    for (size_t i = 0; i < nnz; ++i) {
      p.batch.cols.push_back(static_cast<uint32_t>(random.Below(features)));
      if (!ones) p.batch.values.push_back(Normalish(random));
    }
    p.batch.row_begin.push_back(static_cast<uint32_t>(p.batch.cols.size()));
    p.batch.labels.push_back(random.Below(3) == 0 ? 1.0f : 0.0f);
    if (seed % 5 == 0) p.batch.weights.push_back(static_cast<float>(random.Uniform()));
  }
  io::KeyCompactor compactor(features);
  compactor.Compact(p.batch.cols, p.batch.keys);
  p.batch.compacted = true;
  for (size_t k = 0; k < p.batch.keys.size(); ++k) p.weights.push_back(Normalish(random));
  return p;
}

// How far a sum over row r in single precision, in four or more parts, may be from the exact one.
inline float MarginTolerance(const Problem& p, size_t r) {
  double magnitude = 0;
  for (uint32_t i = p.batch.row_begin[r]; i < p.batch.row_begin[r + 1]; ++i) {
    const float value = p.batch.values.empty() ? 1.0f : p.batch.values[i];
    magnitude += std::abs(static_cast<double>(value * p.weights[p.batch.cols[i]]));
  }
  const uint32_t nnz = p.batch.row_begin[r + 1] - p.batch.row_begin[r];
  return static_cast<float>(6e-8 * (nnz / 4 + 8) * magnitude + 1e-30);
}

}  // namespace millrace::test
