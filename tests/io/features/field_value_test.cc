// SPDX-License-Identifier: Apache-2.0
#include "io/features/field_value.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace millrace::io {
namespace {

FieldRow OneColumn() {
  FieldRow row;
  row.Clear(1);
  row.Begin(0);
  return row;
}

std::string Text(const FieldRow& row) {
  ValueText room;
  return std::string(TextOf(row.column(0)[0], room));
}

TEST(FieldValueTest, NumbersOfAllKindsHaveOneText) {
  FieldRow row = OneColumn();
  row.AddInt(-39);
  EXPECT_EQ(Text(row), "-39");
  row = OneColumn();
  row.AddFloat(-39);
  EXPECT_EQ(Text(row), "-39");
  row = OneColumn();
  row.AddDouble(-39);
  EXPECT_EQ(Text(row), "-39");
  row = OneColumn();
  row.AddText("-39");
  EXPECT_EQ(Text(row), "-39");
  row = OneColumn();
  row.AddFloat(0.1f);
  EXPECT_EQ(Text(row), "0.1");
  row = OneColumn();
  row.AddDouble(0.1);
  EXPECT_EQ(Text(row), "0.1");
  row = OneColumn();
  row.AddInt(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Text(row), "-9223372036854775808");
  row = OneColumn();
  row.AddDouble(-0.0);
  EXPECT_EQ(Text(row), "0");
}

TEST(FieldValueTest, TextIsANumberOnlyAsAWhole) {
  const auto number = [](std::string_view text) {
    FieldRow row = OneColumn();
    row.AddText(text);
    return NumberOf(row.column(0)[0]);
  };
  EXPECT_EQ(number("12.5"), 12.5);
  EXPECT_EQ(number(" 7 "), 7);
  EXPECT_EQ(number("-1e3"), -1000);
  for (const char* bad : {"x", "7x", "1 2", "nan", "inf", "-inf", "1e999", "0x10", " "}) {
    EXPECT_FALSE(number(bad)) << bad;
  }
}

TEST(FieldValueTest, EmptyPartsAreMissing) {
  FieldRow row = OneColumn();
  row.AddText("|a||bc|");
  std::vector<std::string> parts;
  const Status done = ForEachPart(row.column(0)[0], "|", [&](const FieldValue& part) {
    parts.emplace_back(part.AsText());
    return Status();
  });
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "bc"}));
}

TEST(FieldRowTest, LaterBeginReplacesAColumn) {
  FieldRow row;
  row.Clear(2);
  row.Begin(1);
  row.AddInt(1);
  row.Begin(0);
  row.AddText("");  // missing
  row.Begin(1);
  row.AddInt(2);
  row.AddInt(3);
  EXPECT_TRUE(row.column(0).empty());
  ASSERT_EQ(row.column(1).size(), 2u);
  EXPECT_EQ(row.column(1)[0].integer, 2);
}

}  // namespace
}  // namespace millrace::io
