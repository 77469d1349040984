// SPDX-License-Identifier: Apache-2.0
#include "io/text/json_error.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "io/base/utf8.h"
#include "io/text/line_cursor.h"

namespace millrace::io {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// A parser that makes nothing. Its functions return false at the first error.
class JsonChecker {
 public:
  explicit JsonChecker(std::string_view text) : text_(text) {}

  bool Check() {
    if (!Value(0)) return false;
    SkipBlanks();
    return at_ == text_.size() || Fail("the end of the record");
  }

  std::string Message() const {
    const std::string_view rest = text_.substr(at_);
    return "byte " + std::to_string(at_ + 1) + ": expected " + expected_ + ", found " +
           (rest.empty() ? "the end" : Quoted(rest.substr(0, 20)));
  }

 private:
  bool Fail(const char* expected) {
    expected_ = expected;
    return false;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipBlanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool Value(int depth) {
    if (depth >= kMaxJsonDepth) return Fail("fewer values inside each other");
    SkipBlanks();
    switch (Peek()) {
      case '{':
        return Object(depth);
      case '[':
        return Array(depth);
      case '"':
        return String();
      case 't':
        return Word("true");
      case 'f':
        return Word("false");
      case 'n':
        return Word("null");
      default:
        return Number();
    }
  }

  bool Word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return Fail("a JSON value");
    at_ += word.size();
    return true;
  }

  bool Object(int depth) {
    ++at_;
    SkipBlanks();
    if (Take('}')) return true;
    do {
      SkipBlanks();
      if (Peek() != '"') return Fail("a name in quotes");
      if (!String()) return false;
      SkipBlanks();
      if (!Take(':')) return Fail("':'");
      if (!Value(depth + 1)) return false;
      SkipBlanks();
    } while (Take(','));
    return Take('}') || Fail("',' or '}'");
  }

  bool Array(int depth) {
    ++at_;
    SkipBlanks();
    if (Take(']')) return true;
    do {
      if (!Value(depth + 1)) return false;
      SkipBlanks();
    } while (Take(','));
    return Take(']') || Fail("',' or ']'");
  }

  bool String() {
    for (++at_; at_ < text_.size();) {
      const char c = text_[at_];
      if (c == '"') return ++at_, true;
      if (static_cast<unsigned char>(c) < 0x20) return Fail("no control character in a string");
      if (c == '\\') {
        if (!Escape()) return false;
        continue;
      }
      const size_t length = Utf8Length(text_.substr(at_));
      if (length == 0) return Fail("UTF-8");
      at_ += length;
    }
    return Fail("a closing quote");
  }

  bool HexDigits(size_t at, uint32_t& code) const {
    code = 0;
    if (at + 4 > text_.size()) return false;
    for (size_t i = at; i < at + 4; ++i) {
      if (!IsHexDigit(text_[i])) return false;
    }
    std::from_chars(text_.data() + at, text_.data() + at + 4, code, 16);
    return true;
  }

  bool Escape() {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c != 'u') {
      if (c == '\0' || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
        return Fail("an escape sequence");
      }
      at_ += 2;
      return true;
    }
    uint32_t code = 0, low = 0;
    if (!HexDigits(at_ + 2, code)) return Fail("\\u and four hex digits");
    const bool is_high = code >= 0xd800 && code < 0xdc00;
    const bool has_low = is_high && text_.substr(at_ + 6).starts_with("\\u") &&
                         HexDigits(at_ + 8, low) && low >= 0xdc00 && low < 0xe000;
    if ((is_high && !has_low) || (code >= 0xdc00 && code < 0xe000)) {
      return Fail("two surrogates, high and low");
    }
    at_ += is_high ? 12 : 6;
    return true;
  }

  size_t SkipDigits(size_t at) const {
    while (at < text_.size() && IsDigit(text_[at])) ++at;
    return at;
  }

  bool Number() {
    const size_t begin = at_;
    size_t end = at_;
    const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    if (at(end) == '-') ++end;
    const size_t digits = end;
    end = SkipDigits(end);
    if (end == digits) return Fail("a JSON value");
    if (at(digits) == '0' && end > digits + 1) return Fail("a number without leading zeros");
    bool is_integer = true;
    if (at(end) == '.') {
      is_integer = false;
      const size_t fraction = end + 1;
      end = SkipDigits(fraction);
      if (end == fraction) return Fail("a number with digits after the point");
    }
    if (at(end) == 'e' || at(end) == 'E') {
      is_integer = false;
      size_t exponent = end + 1;
      if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
      end = SkipDigits(exponent);
      if (end == exponent) return Fail("a number with digits in its exponent");
    }
    const std::string number(text_.substr(begin, end - begin));
    if (is_integer && !FitsInteger(number)) return Fail("an integer of at most 64 bits");
    if (!is_integer && !std::isfinite(std::strtod(number.c_str(), nullptr))) {
      return Fail("a number in the range of a double");
    }
    at_ = end;
    return true;
  }

  static bool FitsInteger(const std::string& number) {
    const char* const end = number.data() + number.size();
    int64_t small = 0;
    uint64_t large = 0;
    return std::from_chars(number.data(), end, small).ec == std::errc() ||
           (number[0] != '-' && std::from_chars(number.data(), end, large).ec == std::errc());
  }

  std::string_view text_;
  size_t at_ = 0;
  const char* expected_ = "";
};

}  // namespace

std::string DescribeJsonError(std::string_view text, std::string_view otherwise) {
  JsonChecker checker(text);
  return checker.Check() ? std::string(otherwise) : checker.Message();
}

}  // namespace millrace::io
