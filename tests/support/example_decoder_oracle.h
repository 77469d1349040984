// SPDX-License-Identifier: Apache-2.0
// Compares the fast decoder with libprotobuf. For the test and the fuzzer.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/example/example_decoder.h"
#include "tests/proto/example.pb.h"

namespace millrace::test {

struct OracleRow {
  float label = 0;
  float weight = 1;
  std::vector<uint64_t> keys;
  std::vector<float> values;  // written out, ones too
  std::vector<uint16_t> fields;
  bool operator==(const OracleRow&) const = default;
};

inline const tensorflow::Feature* FindFeature(const tensorflow::Example& example,
                                              const std::string& name) {
  const auto it = example.features().feature().find(name);
  return it == example.features().feature().end() ? nullptr : &it->second;
}

// The fields of `row`, whose keys are there; false if they break the rules.
inline bool AddFields(const tensorflow::Example& example, const io::ExampleDecoderOptions& options,
                      OracleRow& row) {
  const auto* field = FindFeature(example, options.names.field);
  const bool none = !field || field->kind_case() == tensorflow::Feature::KIND_NOT_SET;
  if (none && row.keys.empty()) return true;
  if (none) {
    for (size_t i = 0; i < row.keys.size(); ++i) row.fields.push_back(static_cast<uint16_t>(i));
    return row.keys.size() == options.num_fields;
  }
  if (!field->has_int64_list()) return false;
  for (const int64_t number : field->int64_list().value()) {
    if (number < 0 || static_cast<size_t>(number) >= options.num_fields) return false;
    row.fields.push_back(static_cast<uint16_t>(number));
  }
  return row.fields.size() == row.keys.size();
}

// The row that the rules of example_decoder.h give for what protobuf parsed; nothing if either
// refuses.
inline std::optional<OracleRow> DecodeByProtobuf(std::string_view record,
                                                 const io::ExampleDecoderOptions& options) {
  tensorflow::Example example;
  if (!example.ParseFromArray(record.data(), static_cast<int>(record.size()))) return std::nullopt;
  const auto* label = FindFeature(example, options.names.label);
  const auto* index = FindFeature(example, options.names.index);
  const auto* value = FindFeature(example, options.names.value);
  if (!label || !index) return std::nullopt;
  OracleRow row;
  double y = 0;
  if (label->has_int64_list() && label->int64_list().value_size() == 1) {
    y = static_cast<double>(label->int64_list().value(0));
  } else if (label->has_float_list() && label->float_list().value_size() == 1) {
    y = label->float_list().value(0);
  } else {
    return std::nullopt;
  }
  if (y != 0 && y != 1 && y != -1) return std::nullopt;
  row.label = y == 1 ? 1 : 0;
  if (index->kind_case() != tensorflow::Feature::kInt64List &&
      index->kind_case() != tensorflow::Feature::KIND_NOT_SET) {
    return std::nullopt;
  }
  for (const int64_t key : index->int64_list().value()) {
    if (options.num_features > 0 && static_cast<uint64_t>(key) >= options.num_features)
      return std::nullopt;
    if (static_cast<uint64_t>(key) == io::kInterceptKey) return std::nullopt;
    row.keys.push_back(static_cast<uint64_t>(key));
  }
  row.values.assign(row.keys.size(), 1.0f);
  if (value && value->kind_case() != tensorflow::Feature::KIND_NOT_SET) {
    if (!value->has_float_list() ||
        value->float_list().value_size() != index->int64_list().value_size()) {
      return std::nullopt;
    }
    for (size_t i = 0; i < row.values.size(); ++i) {
      row.values[i] = value->float_list().value(static_cast<int>(i));
      if (!std::isfinite(row.values[i])) return std::nullopt;
    }
  }
  const auto* weight =
      options.names.weight.empty() ? nullptr : FindFeature(example, options.names.weight);
  if (weight) {
    if (!weight->has_float_list() || weight->float_list().value_size() != 1) return std::nullopt;
    row.weight = weight->float_list().value(0);
    if (!std::isfinite(row.weight) || row.weight < 0) return std::nullopt;
  }
  if (options.num_fields > 0 && !AddFields(example, options, row)) return std::nullopt;
  return row;
}

// Row `r` of what our decoder has put into the sink.
inline OracleRow RowOf(const io::BatchBuilder& rows, size_t r) {
  OracleRow row;
  row.label = rows.batch.labels[r];
  if (!rows.batch.weights.empty()) row.weight = rows.batch.weights[r];
  for (uint32_t i = rows.batch.row_begin[r]; i < rows.batch.row_begin[r + 1]; ++i) {
    row.keys.push_back(rows.wide ? rows.wide_keys[i] : rows.batch.cols[i]);
    row.values.push_back(rows.batch.values.empty() ? 1.0f : rows.batch.values[i]);
    if (!rows.batch.fields.empty()) row.fields.push_back(rows.batch.fields.at(i));
  }
  return row;
}

// Decodes `record` after a valid row. Returns the difference, or "".
inline std::string CompareDecoders(std::string_view record, io::ExampleDecoder& decoder,
                                   const io::ExampleDecoderOptions& options) {
  std::string padded(record);
  padded.append(io::kVarintReadSlack, '\xff');
  io::BatchBuilder rows;
  rows.Clear(decoder.wide());
  const uint16_t fields[] = {0, 2, 1};
  rows.AddRow(1, 1, std::vector<uint64_t>{3, 1, 2}, nullptr,
              options.num_fields > 0 ? fields : nullptr);
  const OracleRow before = RowOf(rows, 0);
  const Status status = decoder.Append({padded.data(), record.size()}, rows);
  const auto expected = DecodeByProtobuf(record, options);
  if (!(RowOf(rows, 0) == before)) return "an earlier row changed";
  if (status.ok() != expected.has_value())
    return "acceptance: " + (status.ok() ? "accepted" : status.message());
  if (!status.ok())
    return rows.batch.rows() == 1 && rows.nnz() == 3 ? "" : "a refused record left something";
  if (rows.batch.rows() != 2) return "number of rows";
  return RowOf(rows, 1) == *expected ? "" : "the row's content";
}

}  // namespace millrace::test
