// SPDX-License-Identifier: Apache-2.0
// Untrusted bytes for a terminal: names and texts from files and other processes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/utf8.h"

namespace millrace {

// `bytes` as text that is safe on a terminal. UTF-8, tabs and line ends are unchanged. Control
// characters, which could move the cursor or change the terminal, and bytes that are not UTF-8
// become \xNN.
inline std::string PrintableLines(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto first = static_cast<uint8_t>(bytes[0]);
    const size_t length = Utf8Length(bytes);
    const bool is_control = (first < 0x20 && first != '\t' && first != '\n') || first == 0x7f ||
                            // U+0080 to U+009F: the second set of control characters
                            (length == 2 && first == 0xc2 && static_cast<uint8_t>(bytes[1]) < 0xa0);
    if (length > 0 && !is_control) {
      text += bytes.substr(0, length);
      bytes.remove_prefix(length);
    } else {
      text += {'\\', 'x', kDigits[first >> 4], kDigits[first & 15]};
      bytes.remove_prefix(1);
    }
  }
  return text;
}

// The same for one line: a line end becomes \x0a.
inline std::string Printable(std::string_view bytes) {
  std::string text = PrintableLines(bytes);
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at)) {
    text.replace(at, 1, "\\x0a");
  }
  return text;
}

// "a, b, c" for messages: the first names, each cut if it is long.
inline std::string ListedNames(const std::vector<std::string>& names) {
  constexpr size_t kNames = 50, kBytes = 100;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNames); ++i) {
    const bool is_long = names[i].size() > kBytes;
    text += (i == 0 ? "" : ", ") + names[i].substr(0, kBytes) + (is_long ? "..." : "");
  }
  return names.size() > kNames ? text + ", ..." : text;
}

}  // namespace millrace
