// SPDX-License-Identifier: Apache-2.0
#include "tools/common/json_cursor.h"

#include <charconv>

#include "io/base/printable.h"

namespace millrace::tools {
namespace {

constexpr int kMaxDepth = 64;
constexpr uint32_t kReplacement = 0xFFFD;  // for half a surrogate pair

void AppendUtf8(uint32_t c, std::string& out) {
  const auto byte = [&](uint32_t bits) { out += static_cast<char>(bits); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
        byte(0x80 | (c & 0x3F));
  }
}

}  // namespace

void JsonCursor::Fail(const std::string& expected) {
  if (!status_.ok()) return;
  const std::string found =
      at_ < text_.size() ? "'" + Printable(text_.substr(at_, 12)) + "'" : "the end";
  status_ = Corrupt(name_ + ": offset " + std::to_string(at_) + ": expected " + expected +
                    ", found " + found);
  at_ = text_.size();
}

void JsonCursor::SkipSpace() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

char JsonCursor::Peek() {
  SkipSpace();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonCursor::Take(char c) {
  if (!status_.ok()) return false;
  if (Peek() == c) {
    ++at_;
    return true;
  }
  Fail(std::string("'") + c + "'");
  return false;
}

bool JsonCursor::Open(char bracket) {
  if (!Take(bracket)) return false;
  if (++depth_ <= kMaxDepth) return true;
  Fail("at most " + std::to_string(kMaxDepth) + " levels");
  return false;
}

bool JsonCursor::Close(char bracket) {
  if (!status_.ok()) return true;
  if (Peek() != bracket) return false;
  ++at_;
  return true;
}

// Behind an element: true when another follows.
bool JsonCursor::Next(char bracket) {
  if (!status_.ok() || Close(bracket)) return false;
  if (Peek() != ',') {
    Fail(std::string("',' or '") + bracket + "'");
    return false;
  }
  ++at_;
  return true;
}

std::string_view JsonCursor::Text(std::string& buffer) {
  if (!Take('"')) return {};
  const size_t begin = at_;
  const size_t stop = text_.find_first_of("\"\\", at_);
  if (stop == std::string_view::npos) return Fail("the end of a string"), std::string_view();
  at_ = stop;
  if (text_[stop] == '"') {
    ++at_;
    return text_.substr(begin, stop - begin);
  }
  buffer = text_.substr(begin, stop - begin);
  Unescape(buffer);
  return buffer;
}

std::string JsonCursor::String() {
  std::string buffer;
  return std::string(Text(buffer));
}

// From a backslash to behind the closing quote.
void JsonCursor::Unescape(std::string& out) {
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] != '\\') {
      out += text_[at_++];
      continue;
    }
    if (++at_ >= text_.size()) break;
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      out += kTo[i];
    } else if (c == 'u') {
      uint32_t code = Hex4();
      if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        const uint32_t low = Hex4();
        const bool is_pair = low >= 0xDC00 && low < 0xE000;
        code = is_pair ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : kReplacement;
      }
      AppendUtf8(code >= 0xD800 && code < 0xE000 ? kReplacement : code, out);
    } else {
      return Fail("an escape sequence");
    }
  }
  if (at_ >= text_.size()) return Fail("the end of a string");
  ++at_;
}

uint32_t JsonCursor::Hex4() {
  uint32_t code = 0;
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc() || digits.size() < 4 || end != digits.data() + 4)
    Fail("four hexadecimal digits");
  at_ = std::min(at_ + 4, text_.size());
  return code;
}

std::string_view JsonCursor::Number() {
  if (!status_.ok()) return {};
  SkipSpace();
  const size_t begin = at_;
  at_ = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
  if (at_ == begin) Fail("a number");
  return text_.substr(begin, at_ - begin);
}

double JsonCursor::Double() {
  const size_t begin = at_;
  const std::string_view number = Number();
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc() && end == number.data() + number.size()) return value;
  if (status_.ok()) at_ = begin, Fail("a number");
  return 0;
}

int64_t JsonCursor::Int(int64_t limit) {
  const size_t begin = at_;
  std::string buffer;
  const std::string_view number = Peek() == '"' ? Text(buffer) : Number();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc() && end == number.data() + number.size() && value >= -limit &&
      value <= limit) {
    return value;
  }
  const std::string size = limit == INT64_MAX ? "" : " of at most " + std::to_string(limit);
  if (status_.ok()) at_ = begin, Fail("a whole number" + size);
  return 0;
}

void JsonCursor::Skip() {
  std::string buffer;
  switch (Peek()) {
    case '{':
      return Object([&](std::string_view) { Skip(); });
    case '[':
      return Array([&] { Skip(); });
    case '"':
      Text(buffer);
      return;
    case 't':
    case 'f':
    case 'n':
      for (const std::string_view word : {"true", "false", "null"}) {
        if (text_.substr(at_, word.size()) != word) continue;
        at_ += word.size();
        return;
      }
      return Fail("true, false or null");
    default:
      Number();
  }
}

}  // namespace millrace::tools
