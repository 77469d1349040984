// SPDX-License-Identifier: Apache-2.0
#include "io/text/libffm.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

// A number of digits before a colon; moves `p` behind the colon. False leaves `p`.
template <typename Integer>
bool TakeNumber(const char*& p, const char* end, Integer& number) {
  const auto [colon, error] = std::from_chars(p, end, number);
  if (error != std::errc() || colon == end || *colon != ':') return false;
  p = colon + 1;
  return true;
}

// At a number that TakeNumber does not take.
Status NumberError(const LineCursor& cursor, const char* at, const std::string& expected) {
  const std::string_view word = cursor.WordAt(cursor.p());
  if (std::count(word.begin(), word.end(), ':') < 2) {
    return cursor.WordError(cursor.p(), "field:index:value");
  }
  return cursor.WordError(at, expected);
}

Status ParseEntry(LineCursor& cursor, uint64_t index_base, SparseRow& row) {
  const char* p = cursor.p();
  uint16_t field = 0;
  if (!TakeNumber(p, cursor.end(), field)) {
    return NumberError(cursor, p, "a field (0 to " + std::to_string(kMaxFields - 1) + ")");
  }
  uint64_t index = 0;
  const char* const at = p;
  if (!TakeNumber(p, cursor.end(), index)) {
    return NumberError(cursor, p, "an index (0 or more, at most 64 bits)");
  }
  if (index < index_base) {
    return cursor.Error(at, "an index from " + std::to_string(index_base) + " on",
                        std::to_string(index));
  }
  float value = 0;
  const char* stop = ParseFloat(p, cursor.end(), value);
  if (stop == nullptr || (stop != cursor.end() && !LineCursor::IsBlank(*stop))) {
    return cursor.WordError(p, "a finite value after index " + std::to_string(index));
  }
  row.Add(index - index_base, value);
  row.fields.push_back(field);
  cursor.MoveTo(stop);
  return {};
}

}  // namespace

Result<bool> ParseLibffmLine(std::string_view line, const LibsvmOptions& options, SparseRow& row) {
  row.Clear();
  LineCursor cursor(line);
  ASSIGN_OR_RETURN(const bool found, ParseLibsvmLabel(cursor, options.labels, row.label));
  if (!found) return false;
  while (!cursor.AtEnd()) {
    RETURN_IF_ERROR(ParseEntry(cursor, static_cast<uint64_t>(options.index_base), row));
    cursor.SkipBlanks();
  }
  return true;
}

}  // namespace millrace::io
