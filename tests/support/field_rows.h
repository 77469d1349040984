// SPDX-License-Identifier: Apache-2.0
// Rows of named fields as text, for comparisons.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "io/features/field_row.h"

namespace millrace::test {

// "text", 7 or 0.5d; several values separated by blanks.
inline std::string ColumnText(const io::FieldRow& row, size_t column) {
  std::string text;
  for (const io::FieldValue& value : row.column(column)) {
    if (!text.empty()) text += ' ';
    char digits[64];
    switch (value.kind) {
      case io::FieldValue::Kind::kText:
        text += '"' + std::string(value.AsText()) + '"';
        break;
      case io::FieldValue::Kind::kInt:
        text += std::to_string(value.integer);
        break;
      default:
        text.append(digits, std::to_chars(digits, digits + sizeof digits, value.number).ptr);
        text += value.kind == io::FieldValue::Kind::kFloat ? 'f' : 'd';
    }
  }
  return text;
}

inline std::vector<std::string> RowTexts(const io::FieldRow& row) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < row.columns(); ++i) texts.push_back(ColumnText(row, i));
  return texts;
}

}  // namespace millrace::test
