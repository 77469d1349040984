// SPDX-License-Identifier: Apache-2.0
// Rows in the memory of the caller (the arrays of a scipy.sparse.csr_matrix) as batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "io/batch/key_compactor.h"

namespace millrace::python {

template <typename Index>
struct CsrIndex {
  std::span<const Index> row_begin;  // rows + 1
  std::span<const Index> columns;
};

// Views: the arrays outlive it and do not change.
struct CsrRows {
  std::variant<CsrIndex<int32_t>, CsrIndex<int64_t>> index;
  std::variant<std::span<const float>, std::span<const double>> values;
  uint64_t num_columns = 0;         // columns are below
  std::span<const uint8_t> labels;  // 0 or 1; empty: unknown
  std::span<const double> weights;  // of the rows; empty: all ones

  size_t rows() const {
    return std::visit([](const auto& i) { return i.row_begin.size() - 1; }, index);
  }
  // An error if the arrays have sizes that do not belong together. Columns are checked by
  // BatchCutter.
  Status Validate() const;
};

// In which form a model needs its batches.
enum class BatchForm {
  kIndices,        // not compacted
  kCompact,        // columns of at most 32 bits, compacted
  kCompactHashed,  // any column, compacted
};

// Copies some rows at a time into a batch: values become floats (none if all are ones), columns 32
// bits. A batch stays in the cache, where the whole matrix would need as much memory again. Not
// thread-safe.
class BatchCutter {
 public:
  // `rows` outlives the object.
  BatchCutter(const CsrRows& rows, BatchForm form);

  // Replaces the batch by the rows `first` to below `first + count`, or with `order` by the rows
  // order[first], .... An error names row and column, expected and found; the batch is then
  // unusable.
  Status Cut(size_t first, size_t count, std::span<const uint32_t> order, io::CsrBatch& batch);

 private:
  template <typename Index, typename Value>
  Status Copy(const CsrIndex<Index>& index, std::span<const Value> values, size_t first,
              size_t count, std::span<const uint32_t> order, io::CsrBatch& batch);
  template <typename Index, typename Value>
  Status CopyRange(const CsrIndex<Index>& index, std::span<const Value> values, size_t row,
                   size_t count, io::CsrBatch& batch);
  void CopyLabels(size_t row, size_t count, io::CsrBatch& batch) const;

  const CsrRows& rows_;
  BatchForm form_;
  io::KeyCompactor compactor_;
  PodVector<uint64_t> wide_columns_;
};

}  // namespace millrace::python
