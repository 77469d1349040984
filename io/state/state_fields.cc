// SPDX-License-Identifier: Apache-2.0
#include "io/state/state_fields.h"

#include <algorithm>
#include <charconv>

namespace millrace::io {
namespace {

template <typename Number>
std::string Shortest(Number value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string NumberText(double value) { return Shortest(value); }
std::string NumberText(float value) { return Shortest(value); }

void StateFields::Add(std::string_view name, std::string_view value) {
  CHECK(!name.empty() && name.find_first_of(" \n") == name.npos);
  CHECK(value.find('\n') == value.npos);
  fields_.emplace_back(name, value);
}

void StateFields::AddUint(std::string_view name, uint64_t value) {
  Add(name, std::to_string(value));
}

void StateFields::AddDouble(std::string_view name, double value) { Add(name, NumberText(value)); }

void StateFields::AddBytes(std::string_view name, std::string_view bytes) {
  std::string text = "x";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  Add(name, text);
}

const std::string* StateFields::Find(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields_.end() ? nullptr : &found->second;
}

Result<std::string> StateFields::Text(std::string_view name) const {
  if (const std::string* value = Find(name)) return *value;
  return Corrupt("header: expected a field " + std::string(name) + ", found none");
}

template <typename Number>
Result<Number> StateFields::ParseNumber(std::string_view name, const char* kind) const {
  ASSIGN_OR_RETURN(const std::string text, Text(name));
  Number value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc() && parsed.ptr == end) return value;
  return Corrupt("header field " + std::string(name) + ": expected " + kind + ", found '" + text +
                 "'");
}

Result<uint64_t> StateFields::Uint(std::string_view name) const {
  return ParseNumber<uint64_t>(name, "a whole number");
}

Result<double> StateFields::Double(std::string_view name) const {
  return ParseNumber<double>(name, "a number");
}

Result<std::string> StateFields::Bytes(std::string_view name) const {
  ASSIGN_OR_RETURN(const std::string text, Text(name));
  std::string bytes;
  for (size_t i = 1; i + 1 < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]), low = kDigits.find(text[i + 1]);
    if (high == kDigits.npos || low == kDigits.npos) break;
    bytes += static_cast<char>(high << 4 | low);
  }
  if (text.size() == 2 * bytes.size() + 1 && text[0] == 'x') return bytes;
  return Corrupt("header field " + std::string(name) +
                 ": expected x and pairs of hexadecimal digits, found '" + text + "'");
}

std::string StateFields::Encode() const {
  std::string text;
  for (const auto& [name, value] : fields_) text += name + ' ' + value + '\n';
  return text;
}

Result<StateFields> StateFields::Decode(std::string_view text) {
  StateFields fields;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t space = line.find(' ');
    if (end == text.npos || space == line.npos || space == 0) {
      return Corrupt("header: expected lines of a name and a value");
    }
    const std::string_view name = line.substr(0, space);
    if (fields.Find(name)) return Corrupt("header: field " + std::string(name) + " comes twice");
    fields.Add(name, line.substr(space + 1));
    text.remove_prefix(end + 1);
  }
  return fields;
}

}  // namespace millrace::io
