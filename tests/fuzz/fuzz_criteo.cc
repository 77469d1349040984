// SPDX-License-Identifier: Apache-2.0
// What splits as a Criteo line joins to the same line, and all key makers give 39 keys within their
// range.
#include "io/text/criteo.h"
#include "tests/fuzz/text_fuzz.h"

namespace millrace::io {
namespace {

std::string Join(const CriteoLine& split) {
  std::string line = split.label == 1 ? "1" : "0";
  for (const std::string_view cell : split.fields) line.append("\t").append(cell);
  return line;
}

void CheckKeys(const CriteoKeys& keys, const CriteoLine& split) {
  SparseRow row;
  keys.Encode(split, row);
  CheckRow(row);
  CHECK(row.keys.size() == kCriteoFields);
  CHECK(row.label == split.label);
  for (const uint64_t key : row.keys) {
    CHECK(keys.num_features() == 0 || key < keys.num_features());
  }
}

}  // namespace

void FuzzText(const uint8_t* data, size_t size) {
  CriteoVocabulary vocabulary;
  const auto for_each_row = [&](auto use) {
    ForEachLine(data, size, [&](const std::string& line) {
      CriteoLine split;
      const Result<bool> parsed = SplitCriteoLine(line, split);
      if (!parsed.ok()) CHECK(parsed.status().message().find("expected ") != std::string::npos);
      if (parsed.ok() && *parsed) use(line, split);
    });
  };
  for_each_row([&](const std::string& line, const CriteoLine& split) {
    CHECK(Join(split) == (line.ends_with('\r') ? line.substr(0, line.size() - 1) : line));
    CheckKeys(CriteoHasher(0), split);
    CheckKeys(CriteoHasher(20), split);
    vocabulary.Count(split);
  });
  vocabulary.Freeze(2);
  for_each_row([&](const std::string&, const CriteoLine& split) { CheckKeys(vocabulary, split); });
}

}  // namespace millrace::io

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::io::FuzzText(data, size);
  return 0;
}
