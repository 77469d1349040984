// SPDX-License-Identifier: Apache-2.0
// Makes the reader of named columns for an input format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/features/field_row.h"
#include "io/rows/row_decoder.h"
#include "io/text/csv_dialect.h"

namespace millrace::io {

struct ColumnOptions {
  std::vector<std::string> columns = {};  // the columns of the rows, by their position
  CsvDialect csv = {};                    // of all files; CSV only
  std::shared_ptr<const TableOptions> table = nullptr;  // of all files; tables only
};

// Null for a format whose records have no named columns.
std::unique_ptr<ColumnReader> MakeColumnReader(InputFormat format, const ColumnOptions& options);

// The names of the columns of a record; none for CSV, whose header has them, and
// for tables, see TableOptions.
Result<std::vector<std::string>> ColumnNamesOf(InputFormat format, std::string_view record);

}  // namespace millrace::io
