// SPDX-License-Identifier: Apache-2.0
// CSV and TSV records (RFC 4180) as rows of named fields.
//
//   id,name,note           the names of the columns; see csv_dialect.h
//   1,"Smith, J.",         a cell with a delimiter; an empty cell is a missing value
//   2,"a ""b"" c",x        a doubled quote stands for one quote
//
// Every cell is a text of bytes as they are: they need not be UTF-8, so that files in Latin-1 or
// another encoding make keys, too. An empty cell, quoted or not, is a missing value. Blanks belong
// to a cell. A quote is allowed only as a part of a quoted cell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/cpu.h"
#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/features/field_row.h"

namespace millrace::io {

// Where a record's delimiters outside of quotes are, and how many quotes it has.
struct CsvIndex {
  size_t delimiters = 0;
  size_t quotes = 0;
};
// Writes the positions to `out`, which has room for record.size() + kCsvIndexSlack numbers.
using CsvIndexFunction = CsvIndex (*)(std::string_view record, char delimiter, uint32_t* out);
constexpr size_t kCsvIndexSlack = 64;
// The kernel of `level`: all give the same. The plain one is for any processor.
CsvIndexFunction CsvIndexFor(CpuLevel level);

// The cells of a record, all of them. For headers and samples.
Result<std::vector<std::string>> SplitCsvRecord(std::string_view record, char delimiter);

// Not thread-safe.
class CsvColumns final : public ColumnReader {
 public:
  // Reads the columns `wanted` from records whose cells have the names `columns`; the first cell of
  // a name counts. A wanted column that the records lack is missing in every row: see
  // CheckCsvColumns in csv_dialect.h.
  CsvColumns(const std::vector<std::string>& columns, char delimiter,
             const std::vector<std::string>& wanted, CpuLevel level = DetectCpuLevel());

  // `record` has no line end. An empty one is no row. Texts are views into the record, except cells
  // with doubled quotes: these are valid until the next call.
  Result<bool> Read(std::string_view record, FieldRow& row) override;

 private:
  struct Target {
    uint32_t cell = 0;
    uint32_t column = 0;  // of the row
  };

  std::string_view Cell(std::string_view record, size_t cell) const;
  void ReadPlain(std::string_view record, FieldRow& row) const;
  bool ReadQuoted(std::string_view record, size_t quotes, FieldRow& row);
  std::string_view Unescape(std::string_view inner);
  Status Error(std::string_view record) const;

  std::vector<std::string> columns_;
  char delimiter_;
  CsvIndexFunction index_;
  size_t row_columns_;
  std::vector<Target> targets_;  // by cell
  PodVector<uint32_t> ends_;     // of cells in the record
  PodVector<char> unescaped_;
  size_t unescaped_size_ = 0;
};

}  // namespace millrace::io
