// SPDX-License-Identifier: Apache-2.0
// CSV: records do not depend on the size of blocks, cells not on the kernel; dialects of any bytes.

#include <cstdint>
#include <cstdio>
#include <string>

#include "io/record/block_reader.h"
#include "io/text/csv_columns.h"
#include "io/text/csv_dialect.h"
#include "tests/support/field_rows.h"

namespace millrace::io {
namespace {

struct Split {
  std::vector<std::string> records;
  Status status;
  bool operator==(const Split& other) const {
    return records == other.records && status.message() == other.status.message();
  }
};

Split SplitRecords(std::string_view text, char delimiter, OnCorrupt on_corrupt,
                   size_t block_bytes) {
  BlockReader reader("rows", {.bytes = std::make_unique<MemorySource>(text)},
                     {.framing = Framing::kCsv,
                      .on_corrupt = on_corrupt,
                      .block_bytes = block_bytes,
                      .max_record_bytes = 1000,
                      .csv_delimiter = delimiter});
  Split split;
  Block block;
  while (true) {
    const Result<bool> more = reader.Next(block);
    split.status = more.status();
    if (!more.ok() || !*more) return split;
    for (size_t i = 0; i < block.records.size(); ++i) split.records.emplace_back(block.record(i));
  }
}

void CheckCells(const std::string& record, char delimiter) {
  const std::vector<std::string> names = {"a", "b", "c"}, wanted = {"c", "a", "none"};
  FieldRow row, plain_row;
  CsvColumns columns(names, delimiter, wanted);
  CsvColumns plain(names, delimiter, wanted, CpuLevel::kPlain);
  const Result<bool> read = columns.Read(record, row);
  const Result<bool> plain_read = plain.Read(record, plain_row);
  CHECK(read.status().message() == plain_read.status().message());
  const Result<std::vector<std::string>> cells = SplitCsvRecord(record, delimiter);
  if (!read.ok() || !*read) return;
  CHECK(test::RowTexts(row) == test::RowTexts(plain_row));
  CHECK(cells.ok() && cells->size() == names.size());
  CHECK(test::ColumnText(row, 1) == ((*cells)[0].empty() ? "" : '"' + (*cells)[0] + '"'));
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::io;
  if (size == 0) return 0;
  const char delimiter = ",\t;|"[data[0] % 4];
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  for (const OnCorrupt on_corrupt : {OnCorrupt::kFail, OnCorrupt::kSkip}) {
    const Split whole = SplitRecords(text, delimiter, on_corrupt, 1 << 20);
    CHECK(whole == SplitRecords(text, delimiter, on_corrupt, 1));
    CHECK(whole == SplitRecords(text, delimiter, on_corrupt, 17));
    for (const std::string& record : whole.records) CheckCells(record, delimiter);
  }
  const Result<CsvDialect> dialect = FindCsvDialect(text);
  if (dialect.ok()) CHECK(!dialect->columns.empty());
  LooksLikeCsv(text);
  return 0;
}
