// SPDX-License-Identifier: Apache-2.0
// JSON lines: no bytes crash the reader, and the columns that it names can be read.

#include <algorithm>
#include <cstdint>
#include <string>

#include "io/text/json_columns.h"
#include "tests/fuzz/text_fuzz.h"
#include "tests/support/field_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::io;
  // Kept between inputs: what one record leaves behind must not show in the next.
  static JsonColumns columns({"a", "b.c", "b.c.d", "label", ""});
  ForEachLine(data, size, [](const std::string& record) {
    FieldRow row, again;
    const Result<bool> read = columns.Read(record, row);
    JsonColumns fresh({"a", "b.c", "b.c.d", "label", ""});
    const Result<bool> fresh_read = fresh.Read(record, again);
    CHECK(read.status().message() == fresh_read.status().message());
    if (read.ok()) CHECK(test::RowTexts(row) == test::RowTexts(again));
    Result<std::vector<std::string>> names = JsonColumnNames(record);
    if (!read.ok() && names.ok()) {
      // A column has an object or a nested array as its value.
      CHECK(read.status().message().find("column '") != std::string::npos);
    }
    if (!names.ok() || names->size() > 100) return;
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
    JsonColumns all(*names);
    const Result<bool> all_read = all.Read(record, again);
    // A name may stand for a column here and for an object elsewhere in the record.
    if (!all_read.ok()) {
      CHECK(all_read.status().message().find("expected a string") != std::string::npos);
    }
  });
  return 0;
}
