// SPDX-License-Identifier: Apache-2.0
// Whether bytes are UTF-8 as Unicode defines it: no over-long forms, no surrogates, nothing beyond
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

// The length (1 to 4) of the valid UTF-8 sequence at the start of `text`, or 0.
inline size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto continues = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return continues(1) ? 2 : 0;
  // The second byte's range keeps out over-long forms, surrogates and what lies beyond U+10FFFF.
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (!continues(1, low, high) || !continues(2)) return 0;
  if (first < 0xf0) return 3;
  return continues(3) ? 4 : 0;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace millrace
