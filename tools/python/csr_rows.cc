// SPDX-License-Identifier: Apache-2.0
#include "tools/python/csr_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace millrace::python {
namespace {

constexpr size_t kMaxEntries = size_t{1} << 31;  // of a batch

std::string Size(const char* name, size_t expected, size_t found) {
  return std::string(name) + ": expected " + std::to_string(expected) + " entries, found " +
         std::to_string(found);
}

// The first column of `columns` that is not below num_columns.
template <typename Index>
Status BadColumn(std::span<const Index> columns, uint64_t num_columns, size_t row, size_t count) {
  const auto bad = std::find_if(columns.begin(), columns.end(), [&](Index column) {
    return static_cast<uint64_t>(column) >= num_columns;
  });
  return Invalid("rows " + std::to_string(row) + " to " + std::to_string(row + count - 1) +
                 ": column: expected 0 to below " + std::to_string(num_columns) + ", found " +
                 std::to_string(bad == columns.end() ? Index{0} : *bad));
}

template <typename Value>
Status BadValue(std::span<const Value> values, size_t row, size_t count) {
  const auto bad = std::find_if(values.begin(), values.end(), [](Value value) {
    return !std::isfinite(static_cast<float>(value));
  });
  return Invalid("rows " + std::to_string(row) + " to " + std::to_string(row + count - 1) +
                 ": value: expected a number in the range of a float, found " +
                 std::to_string(bad == values.end() ? Value{0} : *bad));
}

}  // namespace

Status CsrRows::Validate() const {
  const size_t entries = std::visit([](const auto& v) { return v.size(); }, values);
  const auto check = [&](const auto& i) -> Status {
    if (i.row_begin.empty()) return Invalid(Size("indptr", 1, 0));
    if (i.columns.size() != entries) return Invalid(Size("indices", entries, i.columns.size()));
    return {};
  };
  RETURN_IF_ERROR(std::visit(check, index));
  if (!labels.empty() && labels.size() != rows()) {
    return Invalid(Size("labels", rows(), labels.size()));
  }
  if (!weights.empty() && weights.size() != rows()) {
    return Invalid(Size("weights", rows(), weights.size()));
  }
  // A batch has the number of a row in 32 bits.
  if (rows() > std::numeric_limits<uint32_t>::max()) {
    return Invalid("rows: expected fewer than 2^32, found " + std::to_string(rows()));
  }
  return {};
}

BatchCutter::BatchCutter(const CsrRows& rows, BatchForm form)
    : rows_(rows), form_(form), compactor_(form == BatchForm::kCompact ? rows.num_columns : 0) {}

Status BatchCutter::Cut(size_t first, size_t count, std::span<const uint32_t> order,
                        io::CsrBatch& batch) {
  batch.Clear();
  wide_columns_.clear();
  RETURN_IF_ERROR(std::visit(
      [&](const auto& index, const auto& values) {
        return Copy(index, values, first, count, order, batch);
      },
      rows_.index, rows_.values));
  if (form_ == BatchForm::kIndices) return {};
  if (form_ == BatchForm::kCompact) {
    compactor_.Compact(batch.cols, batch.keys);
  } else {
    compactor_.Compact(wide_columns_, batch.cols, batch.keys);
  }
  batch.compacted = true;
  return {};
}

template <typename Index, typename Value>
Status BatchCutter::Copy(const CsrIndex<Index>& index, std::span<const Value> values, size_t first,
                         size_t count, std::span<const uint32_t> order, io::CsrBatch& batch) {
  if (order.empty()) return CopyRange(index, values, first, count, batch);
  for (size_t i = first; i < first + count; ++i) {
    RETURN_IF_ERROR(CopyRange(index, values, order[i], 1, batch));
  }
  return {};
}

// As a decoder does: a batch has values and weights from the first one other than 1 on.
template <typename Index, typename Value>
Status BatchCutter::CopyRange(const CsrIndex<Index>& index, std::span<const Value> values,
                              size_t row, size_t count, io::CsrBatch& batch) {
  const size_t before = batch.row_begin.back();
  const Index begin = index.row_begin[row];
  Index last = begin;
  for (size_t r = row; r < row + count; ++r) {
    const Index end = index.row_begin[r + 1];
    if (begin < 0 || end < last || static_cast<size_t>(end) > index.columns.size()) {
      return Invalid("row " + std::to_string(r) + ": indptr: expected " + std::to_string(last) +
                     " to " + std::to_string(index.columns.size()) + ", found " +
                     std::to_string(end));
    }
    last = end;
    const size_t at = before + static_cast<size_t>(end - begin);
    if (at >= kMaxEntries) {
      return Invalid("rows " + std::to_string(row) + " to " + std::to_string(r) +
                     ": expected fewer than 2^31 entries in a batch");
    }
    batch.row_begin.push_back(static_cast<uint32_t>(at));
  }
  const auto offset = static_cast<size_t>(begin), entries = static_cast<size_t>(last - begin);

  const auto columns = index.columns.subspan(offset, entries);
  const uint64_t num_columns = rows_.num_columns;
  bool in_range = true;
  if (form_ == BatchForm::kCompactHashed) {
    for (const Index column : columns) in_range &= static_cast<uint64_t>(column) < num_columns;
    wide_columns_.insert(wide_columns_.end(), columns.begin(), columns.end());
  } else {
    batch.cols.resize(before + entries);
    uint32_t* to = batch.cols.data() + before;
    for (size_t i = 0; i < entries; ++i) {
      const Index column = columns[i];
      in_range &= static_cast<uint64_t>(column) < num_columns;
      to[i] = static_cast<uint32_t>(column);
    }
  }
  if (!in_range) return BadColumn(columns, num_columns, row, count);

  const auto data = values.subspan(offset, entries);
  size_t ones = 0;
  for (const Value value : data) ones += value == Value{1};
  if (ones < entries || !batch.values.empty()) {
    batch.values.resize(before, 1.0f);
    batch.values.resize(before + entries);
    float* to = batch.values.data() + before;
    bool finite = true;
    for (size_t i = 0; i < entries; ++i) {
      to[i] = static_cast<float>(data[i]);
      finite &= std::abs(to[i]) <= std::numeric_limits<float>::max();
    }
    if (!finite) return BadValue(data, row, count);
  }
  CopyLabels(row, count, batch);
  return {};
}

void BatchCutter::CopyLabels(size_t row, size_t count, io::CsrBatch& batch) const {
  const size_t before = batch.labels.size();
  batch.labels.resize(before + count, io::kNoLabel);
  if (!rows_.labels.empty()) {
    for (size_t r = 0; r < count; ++r) batch.labels[before + r] = rows_.labels[row + r] ? 1 : 0;
  }
  if (rows_.weights.empty()) return;
  const auto weights = rows_.weights.subspan(row, count);
  const bool ones = std::all_of(weights.begin(), weights.end(), [](double w) { return w == 1; });
  if (ones && batch.weights.empty()) return;
  batch.weights.resize(before, 1.0f);
  for (const double weight : weights) batch.weights.push_back(static_cast<float>(weight));
}

}  // namespace millrace::python
