// SPDX-License-Identifier: Apache-2.0
#include "io/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {
namespace {

TEST(Utf8, EveryCodePointIsValidUnlessSurrogate) {
  for (uint32_t c = 0; c <= 0x110000; ++c) {
    std::string text;
    if (c < 0x80) {
      text = {static_cast<char>(c)};
    } else if (c < 0x800) {
      text = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      text = {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
              static_cast<char>(0x80 | (c & 63))};
    } else {
      text = {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
    const bool valid = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    ASSERT_EQ(IsUtf8(text), valid) << c;
    ASSERT_FALSE(text.size() > 1 && IsUtf8(std::string_view(text).substr(0, text.size() - 1))) << c;
  }
}

}  // namespace
}  // namespace millrace
