// SPDX-License-Identifier: Apache-2.0
// What parses as libffm has a field for every key and finite numbers, and parses to the same row
// when printed again.
#include "io/text/libffm.h"
#include "tests/fuzz/text_fuzz.h"

namespace millrace::io {
namespace {

std::string Print(const SparseRow& row, int index_base) {
  std::string line;
  AppendNumber(line, row.label);
  for (size_t i = 0; i < row.keys.size(); ++i) {
    line += ' ';
    AppendNumber(line, row.fields[i]);
    line += ':';
    AppendNumber(line, row.keys[i] + static_cast<uint64_t>(index_base));
    line += ':';
    AppendNumber(line, row.values[i]);
  }
  return line;
}

void FuzzLine(const std::string& line, int index_base) {
  SparseRow row, again;
  const Result<bool> parsed = ParseLibffmLine(line, {.index_base = index_base}, row);
  if (!parsed.ok()) CHECK(parsed.status().message().starts_with("column "));
  if (!parsed.ok() || !*parsed) return;
  CheckRow(row);
  CHECK(row.fields.size() == row.keys.size());
  const Result<bool> reparsed =
      ParseLibffmLine(Print(row, index_base), {.index_base = index_base}, again);
  CHECK(reparsed.ok() && *reparsed);
  CheckSame(row, again);
  CHECK(row.fields == again.fields);
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::io::ForEachLine(data, size, [](const std::string& line) {
    millrace::io::FuzzLine(line, 0);
    millrace::io::FuzzLine(line, 1);
  });
  return 0;
}
