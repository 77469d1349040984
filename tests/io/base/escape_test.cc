// SPDX-License-Identifier: Apache-2.0
#include "io/base/escape.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(EscapeControl, ControlCharactersBecomeHexadecimal) {
  EXPECT_EQ(EscapeControl("a\x1b[31mb\r\x7f\x07"), "a\\x1b[31mb\\x0d\\x7f\\x07");
  EXPECT_EQ(EscapeControl(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(EscapeControl("\xc2\x9b"), "\\xc2\\x9b") << "U+009B begins a control sequence";
}

TEST(EscapeControl, TextStays) {
  const std::string text = "tab\tline\n \xc2\xa0 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\x1b \xc2";
  EXPECT_EQ(EscapeControl(text), text);
}

}  // namespace
}  // namespace millrace
