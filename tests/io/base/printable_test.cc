// SPDX-License-Identifier: Apache-2.0
#include "io/base/printable.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(PrintableTest, TextIsUnchangedAndOtherBytesAreEscaped) {
  EXPECT_EQ(Printable("a\tb ü € 😀"), "a\tb ü € 😀");
  EXPECT_EQ(Printable("\x1b[2Jgone\x07"), "\\x1b[2Jgone\\x07");
  EXPECT_EQ(Printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("caf\xe9!"), "caf\\xe9!");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "2J"),
            "\\xc2\\x9b2J")
      << "a control character of two bytes";
  EXPECT_EQ(Printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "a UTF-16 surrogate";
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  EXPECT_EQ(Printable("\xE2\x82"), "\\xe2\\x82") << "truncated";
}

TEST(Printable, LineEndsStayInTextsOfSeveralLines) {
  EXPECT_EQ(PrintableLines("a\n\tb\r\n"), "a\n\tb\\x0d\n");
  EXPECT_EQ(Printable("a\nb\n"), "a\\x0ab\\x0a");
}

TEST(ListedNames, ManyOrLongNamesAreCut) {
  EXPECT_EQ(ListedNames({}), "");
  EXPECT_EQ(ListedNames({"a", "b"}), "a, b");
  EXPECT_EQ(ListedNames({std::string(1000000, 'x'), "b"}), std::string(100, 'x') + "..., b");
  EXPECT_TRUE(ListedNames(std::vector<std::string>(51, "c")).ends_with(", c, c, ..."));
  EXPECT_TRUE(ListedNames(std::vector<std::string>(50, "c")).ends_with(", c, c"));
}

}  // namespace
}  // namespace millrace
