// SPDX-License-Identifier: Apache-2.0
#include "tools/common/text_table.h"

#include <gtest/gtest.h>

namespace millrace::tools {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({{"a"}, {"bb"}, {"c"}});
  table.Add({"aaa", "b", "cc"});
  EXPECT_EQ(table.Text(), "a    bb  c\naaa  b   cc\n");
}

TEST(TextTable, NumbersAreAlignedRight) {
  TextTable table({{"op"}, {"ms", true}});
  table.Add({"read", "7"});
  table.Add({"train", "1234"});
  EXPECT_EQ(table.Text(), "op       ms\nread      7\ntrain  1234\n");
}

TEST(TextTable, WidthsCountCharactersNotBytes) {
  TextTable table({{"name"}, {"x"}});
  table.Add({"\xC3\xBC\xE2\x82\xAC", "1"});
  EXPECT_EQ(table.Text(), "name  x\n\xC3\xBC\xE2\x82\xAC    1\n");
}

TEST(TextTable, LinesHaveNoTrailingSpaces) {
  TextTable table({{"a"}, {"note"}});
  table.Add({"x", ""});
  EXPECT_EQ(table.Text(), "a  note\nx\n");
}

TEST(TextTable, ControlCharactersAreEscaped) {
  TextTable table({{"a\x1b[2J"}, {"b"}});
  table.Add({"x\ny", "\xff"});
  EXPECT_EQ(table.Text(), "a\\x1b[2J  b\nx\\x0ay    \\xff\n");
}

}  // namespace
}  // namespace millrace::tools
