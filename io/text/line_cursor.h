// SPDX-License-Identifier: Apache-2.0
// Helpers of the text parsers: a cursor in a line, number parsing, and errors that name a column.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::io {

// `text` in double quotes for a message: unprintable bytes become \xNN, long text is truncated.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += c;
    } else {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return quoted + (text.size() > kShown ? "...\"" : "\"");
}

namespace internal {
// A number that from_chars reports as out of range: 0 or subnormal if too small, infinite if too
// large.
inline float ExtremeFloat(const char* begin, const char* end) {
  return static_cast<float>(std::strtod(std::string(begin, end).c_str(), nullptr));
}
}  // namespace internal

// Reads the decimal number at `p`, with or without a sign. Returns the byte after it, or nullptr if
// there is no finite number.
inline const char* ParseFloat(const char* p, const char* end, float& out) {
  if (p != end && *p == '+') {
    ++p;
    if (p != end && *p == '-') return nullptr;
  }
  // Fast path: most values are small integers, exact as a float and followed by a blank.
  constexpr int kExactDigits = 7;
  uint32_t integer = 0;
  const char* q = p;
  for (; q != end && q - p < kExactDigits && *q >= '0' && *q <= '9'; ++q) {
    integer = integer * 10 + static_cast<uint32_t>(*q - '0');
  }
  if (q != p && (q == end || *q == ' ' || *q == '\t')) {
    out = static_cast<float>(integer);
    return q;
  }
  const auto [stop, error] = std::from_chars(p, end, out);
  if (error == std::errc::invalid_argument) return nullptr;
  if (error == std::errc::result_out_of_range) out = internal::ExtremeFloat(p, stop);
  return std::isfinite(out) ? stop : nullptr;
}

// A position in a line, which must outlive the cursor.
class LineCursor {
 public:
  // Drops a trailing \r. Columns in messages count from the line's first byte.
  explicit LineCursor(std::string_view line)
      : begin_(line.data()), p_(begin_), end_(begin_ + line.size()) {
    if (p_ != end_ && end_[-1] == '\r') --end_;
  }

  static bool IsBlank(char c) { return c == ' ' || c == '\t'; }

  const char* p() const { return p_; }
  const char* end() const { return end_; }
  void MoveTo(const char* p) { p_ = p; }
  void CutAt(const char* end) { end_ = end; }
  std::string_view rest() const { return {p_, static_cast<size_t>(end_ - p_)}; }

  bool AtEnd() const { return p_ == end_; }
  void SkipBlanks() {
    while (p_ != end_ && IsBlank(*p_)) ++p_;
  }
  // The text from `from` to the next blank or the end.
  std::string_view WordAt(const char* from) const {
    const char* q = from;
    while (q != end_ && !IsBlank(*q)) ++q;
    return {from, static_cast<size_t>(q - from)};
  }

  // "column 7: expected an index, found "abc"".
  Status Error(const char* at, std::string_view expected, std::string_view found) const {
    return Corrupt("column " + std::to_string(at - begin_ + 1) + ": expected " +
                   std::string(expected) + ", found " + std::string(found));
  }
  Status WordError(const char* at, std::string_view expected) const {
    const std::string_view word = WordAt(at);
    return Error(at, expected, word.empty() ? "nothing" : Quoted(word));
  }

 private:
  const char* begin_;
  const char* p_;
  const char* end_;
};

}  // namespace millrace::io
