// SPDX-License-Identifier: Apache-2.0
// What parses as libsvm has ascending keys and finite numbers, and parses to the same row when
// printed again.
#include "io/text/libsvm.h"
#include "tests/fuzz/text_fuzz.h"

namespace millrace::io {
namespace {

std::string Print(const SparseRow& row, int index_base) {
  std::string line;
  AppendNumber(line, row.label);
  for (size_t i = 0; i < row.keys.size(); ++i) {
    line += ' ';
    AppendNumber(line, row.keys[i] + static_cast<uint64_t>(index_base));
    line += ':';
    AppendNumber(line, row.values[i]);
  }
  return line;
}

void FuzzLine(const std::string& line, int index_base) {
  SparseRow row, again;
  const Result<bool> parsed = ParseLibsvmLine(line, {.index_base = index_base}, row);
  if (!parsed.ok()) CHECK(parsed.status().message().starts_with("column "));
  if (!parsed.ok() || !*parsed) return;
  CheckRow(row);
  for (size_t i = 1; i < row.keys.size(); ++i) CHECK(row.keys[i - 1] < row.keys[i]);
  const Result<bool> reparsed =
      ParseLibsvmLine(Print(row, index_base), {.index_base = index_base}, again);
  CHECK(reparsed.ok() && *reparsed);
  CheckSame(row, again);
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
