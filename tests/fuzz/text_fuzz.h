// SPDX-License-Identifier: Apache-2.0
// What the fuzzers of the text formats share.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/text/sparse_row.h"

namespace millrace::io {

// Calls `parse(line)` for every line of the input.
template <typename Parse>
void ForEachLine(const uint8_t* data, size_t size, Parse parse) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    // A copy of exact size, so that the sanitizer sees a read behind the line.
    parse(std::string(text.substr(0, end)));
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
}

inline void AppendNumber(std::string& text, auto number) {
  char digits[64];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

inline void CheckRow(const SparseRow& row) {
  CHECK(row.keys.size() == row.values.size());
  CHECK(std::isfinite(row.label) && std::isfinite(row.weight) && row.weight >= 0);
  for (const float value : row.values) CHECK(std::isfinite(value));
}

inline void CheckSame(const SparseRow& a, const SparseRow& b) {
  CHECK(a.label == b.label && a.weight == b.weight && a.keys == b.keys && a.values == b.values);
}

}  // namespace millrace::io
