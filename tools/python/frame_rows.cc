// SPDX-License-Identifier: Apache-2.0
#include "tools/python/frame_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "io/features/feature_fitter.h"
#include "io/rows/row_decoder.h"

namespace millrace::python {
namespace {

constexpr size_t kRowsAtOnce = 4096;

void AddValue(int64_t value, io::FieldRow& to) { to.AddInt(value); }
void AddValue(float value, io::FieldRow& to) {
  if (!std::isnan(value)) to.AddFloat(static_cast<double>(value));
}
void AddValue(double value, io::FieldRow& to) {
  if (!std::isnan(value)) to.AddDouble(value);
}
void AddValue(const io::FieldValue& value, io::FieldRow& to) {
  switch (value.kind) {
    case io::FieldValue::Kind::kText:
      return to.AddText(value.AsText());
    case io::FieldValue::Kind::kInt:
      return to.AddInt(value.integer);
    case io::FieldValue::Kind::kFloat:
      return to.AddFloat(value.number);
    case io::FieldValue::Kind::kDouble:
      return to.AddDouble(value.number);
  }
}

// The frame's column of each column of the spec; null where it has none.
Result<std::vector<const FrameColumn*>> ColumnsOf(const std::vector<std::string>& names,
                                                  std::span<const FrameColumn> columns,
                                                  size_t rows) {
  std::vector<const FrameColumn*> found;
  for (const std::string& name : names) {
    const auto at = std::find_if(columns.begin(), columns.end(),
                                 [&](const FrameColumn& c) { return c.name == name; });
    found.push_back(at == columns.end() ? nullptr : &*at);
    if (found.back() && at->rows() != rows) {
      return Invalid("column '" + name + "': expected " + std::to_string(rows) + " rows, found " +
                     std::to_string(at->rows()));
    }
  }
  return found;
}

void ReadRow(const std::vector<const FrameColumn*>& columns, size_t row, io::FieldRow& to) {
  to.Clear(columns.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c]) continue;
    to.Begin(c);
    columns[c]->Add(row, to);
  }
}

Status AtRow(size_t row, const Status& problem) {
  return {problem.code(), "row " + std::to_string(row) + ": " + problem.message()};
}

// Moves the rows of the builder behind those of `encoded`.
void Append(io::BatchBuilder& rows, EncodedRows& encoded) {
  rows.Trim();
  const io::CsrBatch& batch = rows.batch;
  const size_t entries = encoded.columns.size(), before = encoded.labels.size();
  for (size_t r = 1; r < batch.row_begin.size(); ++r) {
    encoded.row_begin.push_back(static_cast<int64_t>(entries + batch.row_begin[r]));
  }
  if (rows.wide) {
    encoded.columns.insert(encoded.columns.end(), rows.wide_keys.begin(), rows.wide_keys.end());
  } else {
    encoded.columns.insert(encoded.columns.end(), batch.cols.begin(), batch.cols.end());
  }
  if (!batch.values.empty() || !encoded.values.empty()) {
    encoded.values.resize(entries, 1.0f);
    encoded.values.insert(encoded.values.end(), batch.values.begin(), batch.values.end());
    encoded.values.resize(encoded.columns.size(), 1.0f);
  }
  encoded.labels.insert(encoded.labels.end(), batch.labels.begin(), batch.labels.end());
  if (!batch.weights.empty() || !encoded.weights.empty()) {
    encoded.weights.resize(before, 1.0f);
    encoded.weights.insert(encoded.weights.end(), batch.weights.begin(), batch.weights.end());
    encoded.weights.resize(encoded.labels.size(), 1.0f);
  }
}

}  // namespace

size_t FrameColumn::rows() const {
  if (const auto* cells = std::get_if<FrameCells>(&values)) return cells->row_begin.size() - 1;
  if (const auto* integers = std::get_if<std::span<const int64_t>>(&values)) {
    return integers->size();
  }
  if (const auto* floats = std::get_if<std::span<const float>>(&values)) return floats->size();
  return std::get<std::span<const double>>(values).size();
}

void FrameColumn::Add(size_t row, io::FieldRow& to) const {
  if (const auto* cells = std::get_if<FrameCells>(&values)) {
    for (uint64_t i = cells->row_begin[row]; i < cells->row_begin[row + 1]; ++i) {
      AddValue(cells->values[i], to);
    }
  } else if (const auto* integers = std::get_if<std::span<const int64_t>>(&values)) {
    AddValue((*integers)[row], to);
  } else if (const auto* floats = std::get_if<std::span<const float>>(&values)) {
    AddValue((*floats)[row], to);
  } else {
    AddValue(std::get<std::span<const double>>(values)[row], to);
  }
}

Result<EncodedRows> EncodeFrame(const std::shared_ptr<const io::EncoderPlan>& plan,
                                std::span<const FrameColumn> columns, size_t rows,
                                io::Labels labels, const std::function<Status()>& should_stop) {
  const uint64_t num_features = plan->spec().num_features();
  if (num_features == 0) {
    return Invalid("hash_bits: a matrix has columns below 2^63: expected at most 62, found 64");
  }
  ASSIGN_OR_RETURN(const auto found, ColumnsOf(plan->columns(), columns, rows));
  io::FeatureEncoder encoder(plan, labels);
  io::BatchBuilder builder;
  builder.Clear(io::NeedsWideKeys(num_features));
  EncodedRows encoded;
  encoded.row_begin.push_back(0);
  io::FieldRow row;
  for (size_t r = 0; r < rows; ++r) {
    ReadRow(found, r, row);
    const Status appended = encoder.Append(row, builder);
    if (!appended.ok()) return AtRow(r, appended);
    if (builder.batch.rows() < kRowsAtOnce) continue;
    Append(builder, encoded);
    builder.Clear(builder.wide);
    RETURN_IF_ERROR(should_stop());
  }
  Append(builder, encoded);
  return encoded;
}

Result<io::FeatureSpec> FitFrame(const io::FeatureSpec& spec, std::span<const FrameColumn> columns,
                                 size_t rows, const std::function<Status()>& should_stop) {
  ASSIGN_OR_RETURN(const auto found, ColumnsOf(spec.Columns(), columns, rows));
  io::FeatureFitter fitter(spec);
  io::FieldRow row;
  for (size_t r = 0; r < rows; ++r) {
    ReadRow(found, r, row);
    const Status added = fitter.Add(row);
    if (!added.ok()) return AtRow(r, added);
    if (r % kRowsAtOnce == 0) RETURN_IF_ERROR(should_stop());
  }
  return fitter.Finish();
}

}  // namespace millrace::python
