// SPDX-License-Identifier: Apache-2.0
// Untrusted bytes for a terminal: file names, data and quoted input may contain control sequences.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// `text` with every control character as \xNN: bytes below 0x20 except \t and \n, 0x7f, and U+0080
// to U+009F in UTF-8.
inline std::string EscapeControl(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (!c1 && byte != 0x7f && (byte >= 0x20 || byte == '\t' || byte == '\n')) {
      out += text[i];
      continue;
    }
    out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    if (!c1) continue;
    out += {'\\', 'x', kHex[next >> 4], kHex[next & 15]};
    ++i;
  }
  return out;
}

}  // namespace millrace
