// SPDX-License-Identifier: Apache-2.0
// A row of named fields, as it comes from a tf.Example, a CSV or JSON line or a table: for each
// column that a feature spec uses, a list of values.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"

namespace millrace::io {

struct FieldValue {
  enum class Kind : uint32_t { kText, kInt, kFloat, kDouble };

  union {
    const char* text;
    int64_t integer;
    double number;  // kFloat and kDouble
  };
  uint32_t size;  // of the text in bytes
  Kind kind;
  float weight;  // 1, except for VW text: name:weight

  std::string_view AsText() const { return {text, size}; }
};

// Columns are numbered by their position in FeatureSpec::columns(). A column without values is
// missing. Texts are views: they are valid as long as the record that they were read from, and
// until the reader reads its next record. Not thread-safe.
class FieldRow {
 public:
  // Makes all `columns` columns missing.
  void Clear(size_t columns) {
    values_.clear();
    columns_.assign(columns, {});
  }

  // The next Adds go to `column`, whose earlier values are dropped.
  void Begin(size_t column) {
    current_ = column;
    columns_[column] = {static_cast<uint32_t>(values_.size()), 0};
  }
  // An empty text is a missing value and is left out.
  void AddText(std::string_view text, float weight = 1) {
    if (text.empty()) return;
    FieldValue& value = Add(FieldValue::Kind::kText, weight);
    value.text = text.data();
    value.size = static_cast<uint32_t>(text.size());
  }
  void AddInt(int64_t integer) { Add(FieldValue::Kind::kInt, 1).integer = integer; }
  void AddFloat(float number) { Add(FieldValue::Kind::kFloat, 1).number = number; }
  void AddDouble(double number) { Add(FieldValue::Kind::kDouble, 1).number = number; }

  size_t columns() const { return columns_.size(); }
  // Valid until the next change of the row.
  std::span<const FieldValue> column(size_t i) const {
    return {values_.data() + columns_[i].begin, columns_[i].count};
  }

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  FieldValue& Add(FieldValue::Kind kind, float weight) {
    ++columns_[current_].count;
    FieldValue& value = values_.emplace_back();
    value.kind = kind;
    value.weight = weight;
    value.size = 0;
    return value;
  }

  PodVector<FieldValue> values_;
  std::vector<Range> columns_;
  size_t current_ = 0;
};

// Reads the columns of a spec from the records of one format. Not thread-safe: use one per thread.
class ColumnReader {
 public:
  virtual ~ColumnReader() = default;
  // Replaces `row`. False for a record that is no row (a blank line). An error (kCorrupt) names the
  // column or the byte, expected and found.
  virtual Result<bool> Read(std::string_view record, FieldRow& row) = 0;
};

}  // namespace millrace::io
