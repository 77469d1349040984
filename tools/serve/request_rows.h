// SPDX-License-Identifier: Apache-2.0
// Rows of a request as the library takes them, filled value by value.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/score.h"

namespace millrace::serve {

// Rows of named fields. Names and texts are views: they outlive the use of the rows.
class FieldList {
 public:
  void Clear() {
    fields_.clear();
    begin_.assign(1, 0);
  }
  void AddText(std::string_view name, std::string_view text) {
    Add(name, MILLRACE_SCORE_TEXT).value.text = {text.data(), text.size()};
  }
  void AddInt(std::string_view name, int64_t integer) {
    Add(name, MILLRACE_SCORE_INT).value.integer = integer;
  }
  void AddDouble(std::string_view name, double number) {
    Add(name, MILLRACE_SCORE_DOUBLE).value.number = number;
  }
  void EndRow() { begin_.push_back(fields_.size()); }

  // Valid until the next change.
  millrace_rows view() const {
    return {.rows = begin_.size() - 1, .row_begin = begin_.data(), .fields = fields_.data()};
  }

 private:
  millrace_field& Add(std::string_view name, int32_t kind) {
    millrace_field& field = fields_.emplace_back();
    field.name = name.data();
    field.name_size = name.size();
    field.kind = kind;
    return field;
  }

  std::vector<millrace_field> fields_;
  std::vector<uint64_t> begin_ = {0};
};

// Rows of keys. The reader of a request sees to it that there are as many values and fields as
// keys, or none.
struct KeyList {
  std::vector<uint64_t> begin = {0};  // of each row, and the end of the last one
  std::vector<uint64_t> keys = {};
  std::vector<float> values = {};
  std::vector<uint16_t> fields = {};
  bool has_values = false, has_fields = false;

  void Clear() {
    begin.assign(1, 0);
    keys.clear();
    values.clear();
    fields.clear();
    has_values = has_fields = false;
  }
  void EndRow() { begin.push_back(keys.size()); }
  size_t rows() const { return begin.size() - 1; }

  // Valid until the next change.
  millrace_keys view() const {
    return {.rows = rows(),
            .row_begin = begin.data(),
            .keys = keys.data(),
            .values = has_values ? values.data() : nullptr,
            .fields = has_fields ? fields.data() : nullptr};
  }
};

}  // namespace millrace::serve
