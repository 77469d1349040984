#include "tools/launch/output/printable.h"

#include <algorithm>
#include <cstdint>

namespace millrace::tools {
namespace {

// The size of the character of several bytes that `bytes` begins with; 0 if it is none, or one of
// the control characters U+0080 to U+009F.
size_t CharacterSize(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const size_t size = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || bytes.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool too_long = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool no_character =
      (byte(0) == 0xED && byte(1) >= 0xA0) || (byte(0) == 0xF4 && byte(1) >= 0x90);
  const bool is_control = byte(0) == 0xC2 && byte(1) < 0xA0;
  return too_long || no_character || is_control ? 0 : size;
}

bool IsPlain(char c) { return c == '\t' || (c >= 0x20 && c < 0x7F); }

void AppendEscape(std::string& text, char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto byte = static_cast<uint8_t>(c);
  text += "\\x";
  text += kDigits[byte >> 4];
  text += kDigits[byte & 15];
}

}  // namespace

std::string Printable(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto odd = std::find_if_not(bytes.begin(), bytes.end(), IsPlain);
    const auto plain = static_cast<size_t>(odd - bytes.begin());
    text += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    if (bytes.empty()) break;
    const size_t size = CharacterSize(bytes);
    if (size > 0) {
      text += bytes.substr(0, size);
    } else {
      AppendEscape(text, bytes[0]);
    }
    bytes.remove_prefix(std::max<size_t>(size, 1));
  }
  return text;
}

}  // namespace millrace::tools
