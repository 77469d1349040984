// SPDX-License-Identifier: Apache-2.0
// Margins of rows of keys, with the sums in the order of trainer::Model::Margins: equal bits.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "sparse/factor_kernels.h"
#include "sparse/score/serving_model.h"

namespace millrace::score {

// Row r has the entries row_begin[r] up to below row_begin[r + 1].
struct KeyRows {
  std::span<const uint64_t> row_begin;  // rows + 1
  const uint64_t* keys = nullptr;
  const float* values = nullptr;     // null: all ones
  const uint16_t* fields = nullptr;  // of the entries; an ffm needs them, others ignore them

  size_t rows() const { return row_begin.size() - 1; }
};

struct KeyCounts {
  uint64_t keys = 0;
  uint64_t unknown = 0;  // without a weight in the model
};

// Not thread-safe (scratch memory): use one per call. Works for any model.
class RowScorer {
 public:
  // Overwrites `margins`. `counts` may be null. Errors (kInvalid) name the row, counted from
  // `first_row`.
  Status Margins(const ServingModel& model, const KeyRows& rows, std::span<float> margins,
                 KeyCounts* counts, size_t first_row = 0);

 private:
  // Any kind of model, a few rows at a time.
  Status GatheredMargins(const ServingModel& model, const KeyRows& rows, std::span<float> margins,
                         KeyCounts* counts, size_t first_row);
  Status Gather(const ServingModel& model, const KeyRows& rows, size_t row, size_t end,
                KeyCounts* counts);
  void AddCenters(const ServingModel& model, size_t row_entries);
  void Load(const Table& table, const char* entry);
  void Sum(const ServingModel& model, std::span<float> margins);

  io::CsrBatch batch_;        // cols are 0, 1, 2, ...
  PodVector<uint64_t> keys_;  // of its entries
  PodVector<float> weights_;  // the same
  PodVector<float> factors_;  // the same
  sparse::FactorSums sums_;
  std::vector<uint8_t> seen_;  // of a row: by center
};

}  // namespace millrace::score
