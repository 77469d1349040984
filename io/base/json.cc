// SPDX-License-Identifier: Apache-2.0
#include "io/base/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "io/base/utf8.h"

namespace millrace {
namespace {

// The two-character form of `c`, or null.
const char* ShortEscape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return nullptr;
  }
}

bool IsPlain(char c) {
  return static_cast<unsigned char>(c) - 0x20u < 0x5fu && c != '"' && c != '\\';
}

void AppendEscaped(char c, std::string& out) {
  if (const char* escape = ShortEscape(c)) {
    out += escape;
    return;
  }
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned char>(c));
  out += text;
}

// Appends the first character of `text`, and returns how many bytes it has.
size_t AppendCharacter(std::string_view text, std::string& out) {
  const size_t length = Utf8Length(text);
  if (length == 0) {
    out += "\\ufffd";
    return 1;
  }
  if (length == 1) {
    AppendEscaped(text[0], out);
  } else if (text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0) {
    AppendEscaped(text[1], out);  // U+0080 to U+009F, the second set of control characters
  } else {
    out += text.substr(0, length);
  }
  return length;
}

std::string_view NameOfSpecial(double value) {
  if (std::isnan(value)) return "NaN";
  return value < 0 ? "-Infinity" : "Infinity";
}

}  // namespace

void JsonWriter::Comma() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

void JsonWriter::Raw(std::string_view text) {
  Comma();
  out_ += text;
}

void JsonWriter::Open(char bracket) {
  Comma();
  out_ += bracket;
  needs_comma_ = false;
}

void JsonWriter::Close(char bracket) {
  out_ += bracket;
  needs_comma_ = true;
}

void JsonWriter::Key(std::string_view name) {
  String(name);
  out_ += ':';
  needs_comma_ = false;
}

void JsonWriter::Quote(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && IsPlain(text[plain])) ++plain;
    out_ += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(AppendCharacter(text, out_));
  }
  out_ += '"';
}

void JsonWriter::String(std::string_view text) {
  Comma();
  Quote(text);
}

void JsonWriter::Int(int64_t value) {
  char text[24];
  Raw({text, std::to_chars(text, text + sizeof text, value).ptr});
}

void JsonWriter::Uint(uint64_t value) {
  char text[24];
  Raw({text, std::to_chars(text, text + sizeof text, value).ptr});
}

void JsonWriter::Null() { Raw("null"); }

template <typename T>
void JsonWriter::Number(T value) {
  if (!std::isfinite(value)) return String(NameOfSpecial(value));
  char text[64];
  const std::string_view digits(text, std::to_chars(text, text + sizeof text, value).ptr);
  Raw(digits);
  if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
}

void JsonWriter::Float(float value) { Number(value); }
void JsonWriter::Double(double value) { Number(value); }

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace millrace
