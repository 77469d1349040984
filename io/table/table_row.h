// SPDX-License-Identifier: Apache-2.0
// A row of a table as a record: its number (from 0), then a value for each column.
//
//   +-------------+-------+-------+---------+
//   | number: u64 | value | value |   ...   |
//   |      8      |       |       |         |
//   +-------------+-------+-------+---------+
//
// A value begins with a byte that tells its kind:
//
//   0  missing    nothing follows
//   1  text       size: u32, bytes
//   2  integer    i64
//   3  float      f32
//   4  double     f64
//   5  list       count: u32, that many values of the other kinds
//   from 16 on    a text of (byte - 16) bytes, which follow
//
// Rows live in memory only: TableReader writes them, TableColumns reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/features/field_row.h"

namespace millrace::io {

enum class TableValue : uint8_t { kMissing, kText, kInt, kFloat, kDouble, kList };
constexpr uint8_t kShortText = 16;
constexpr uint32_t kMaxShortText = 255 - kShortText;
constexpr size_t kTableRowHeader = 8;

// Not thread-safe.
class TableColumns final : public ColumnReader {
 public:
  // Reads the columns `wanted` from records that have `columns`. A wanted column that the records
  // lack is missing in every row.
  TableColumns(const std::vector<std::string>& columns, const std::vector<std::string>& wanted);

  // Texts are views into the record.
  Result<bool> Read(std::string_view record, FieldRow& row) override;

 private:
  static constexpr uint32_t kUnused = UINT32_MAX;
  std::vector<uint32_t> target_;  // column of the record -> of the row
  size_t row_columns_;
};

}  // namespace millrace::io
