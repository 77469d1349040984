// SPDX-License-Identifier: Apache-2.0
// What parses as VW text has finite numbers and keys within hash_bits, and parses to the same row
// when printed again.
#include "io/base/string_hash.h"
#include "io/text/vw.h"
#include "tests/fuzz/text_fuzz.h"

namespace millrace::io {
namespace {

std::string Print(const SparseRow& row) {
  std::string line;
  AppendNumber(line, row.label);
  line += ' ';
  AppendNumber(line, row.weight);
  line += " 'tag|f";
  for (size_t i = 0; i < row.keys.size(); ++i) {
    line += ' ';
    AppendNumber(line, row.keys[i]);
    line += ':';
    AppendNumber(line, row.values[i]);
  }
  return line;
}

void FuzzLine(const std::string& line, const VwOptions& options) {
  SparseRow row, again;
  const Result<bool> parsed = ParseVwLine(line, options, row);
  if (!parsed.ok()) CHECK(parsed.status().message().starts_with("column "));
  if (!parsed.ok() || !*parsed) return;
  CheckRow(row);
  for (const uint64_t key : row.keys) CHECK(key == MaskKey(key, options.hash_bits));
  const Result<bool> reparsed = ParseVwLine(Print(row), {.hash_all = false}, again);
  CHECK(reparsed.ok() && *reparsed);
  CheckSame(row, again);
}

}  // namespace
}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::io::ForEachLine(data, size, [](const std::string& line) {
    millrace::io::FuzzLine(line, {});
    millrace::io::FuzzLine(line, {.hash_bits = 18});
    millrace::io::FuzzLine(line, {.hash_bits = 64, .hash_all = false});
  });
  return 0;
}
