// SPDX-License-Identifier: Apache-2.0
#include "io/rows/column_reader.h"

#include "io/example/example_columns.h"
#include "io/text/csv_columns.h"
#include "io/text/json_columns.h"

namespace millrace::io {

std::unique_ptr<ColumnReader> MakeColumnReader(InputFormat format, const ColumnOptions& options) {
  switch (format) {
    case InputFormat::kTfRecord:
      return std::make_unique<ExampleColumns>(options.columns);
    case InputFormat::kCsv:
      return std::make_unique<CsvColumns>(options.csv.columns, options.csv.delimiter,
                                          options.columns);
    case InputFormat::kJson:
      return std::make_unique<JsonColumns>(options.columns);
    default:
      return nullptr;
  }
}

}  // namespace millrace::io
