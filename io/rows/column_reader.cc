// SPDX-License-Identifier: Apache-2.0
#include "io/rows/column_reader.h"

#include "io/example/example_columns.h"
#include "io/example/feature_view.h"
#include "io/table/table_reader.h"
#include "io/table/table_row.h"
#include "io/text/csv_columns.h"
#include "io/text/json_columns.h"
#include "io/text/vw.h"

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
    case InputFormat::kTable:
      return std::make_unique<TableColumns>(options.table->columns, options.columns);
    case InputFormat::kVw:
      return std::make_unique<VwColumns>(options.columns);
    default:
      return nullptr;
  }
}

Result<std::vector<std::string>> ColumnNamesOf(InputFormat format, std::string_view record) {
  if (format == InputFormat::kVw) return VwColumnNames(record);
  if (format == InputFormat::kJson) return JsonColumnNames(record);
  std::vector<std::string> names;
  if (format != InputFormat::kTfRecord) return names;
  ExampleView view;
  if (const Status parsed = ParseExample(record, view); !parsed.ok()) {
    return Corrupt(parsed.message());
  }
  for (const FeatureView& feature : view.features()) names.emplace_back(feature.name);
  return names;
}

}  // namespace millrace::io
