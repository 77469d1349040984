// SPDX-License-Identifier: Apache-2.0
#include "io/text/json_columns.h"

#include <gtest/gtest.h>

#include "io/text/json_error.h"
#include "tests/support/field_rows.h"

namespace millrace::io {
namespace {

using test::RowTexts;
using Texts = std::vector<std::string>;

Result<Texts> Read(std::string_view record, const Texts& wanted) {
  JsonColumns reader(wanted);
  FieldRow row;
  ASSIGN_OR_RETURN(const bool is_row, reader.Read(record, row));
  return is_row ? RowTexts(row) : Texts{"no row"};
}

TEST(JsonColumns, MembersGoToTheirColumns) {
  EXPECT_EQ(*Read(R"({"a": 1, "b": "x", "c": 0.5})", {"c", "a", "b", "d"}),
            (Texts{"0.5d", "1", "\"x\"", ""}));
  EXPECT_EQ(*Read(R"({})", {"a"}), Texts{""});
  EXPECT_EQ(*Read(R"({"a": 1, "a": 2})", {"a"}), Texts{"2"});
  EXPECT_EQ(*Read("\xef\xbb\xbf{\"a\": 1}\r", {"a"}), Texts{"1"});
}

TEST(JsonColumns, ValuesKeepTheirType) {
  EXPECT_EQ(*Read(R"({"a": true, "b": false, "c": null, "d": ""})", {"a", "b", "c", "d"}),
            (Texts{"\"true\"", "\"false\"", "", ""}));
  EXPECT_EQ(*Read(R"({"a": -9223372036854775808, "b": 9223372036854775807, "c": 1e2, "d": -0.0})",
                  {"a", "b", "c", "d"}),
            (Texts{"-9223372036854775808", "9223372036854775807", "100d", "-0d"}));
  EXPECT_EQ(*Read(R"({"a": 9223372036854775808, "b": [18446744073709551615, 1]})", {"a", "b"}),
            (Texts{"\"9223372036854775808\"", "\"18446744073709551615\" 1"}));
  EXPECT_EQ(*Read(R"({"a": "q\"\\\n\u00e9\ud83d\ude00"})", {"a"}),
            Texts{"\"q\"\\\n\xc3\xa9\xf0\x9f\x98\x80\""});
}

TEST(JsonColumns, ArraysAreSeveralValues) {
  EXPECT_EQ(*Read(R"({"a": [1, "x", null, 0.5, true, ""], "b": []})", {"a", "b"}),
            (Texts{R"(1 "x" 0.5d "true")", ""}));
}

TEST(JsonColumns, DottedNamesAreMembersOfMembers) {
  const Texts wanted = {"user.age", "user.home.city", "x.y"};
  EXPECT_EQ(
      *Read(R"({"user": {"age": 31, "home": {"city": "Rome"}, "name": {}}, "x.y": 5})", wanted),
      (Texts{"31", "\"Rome\"", "5"}));
  // An object that is something else has no columns.
  EXPECT_EQ(*Read(R"({"user": 5, "x": [1]})", wanted), (Texts{"", "", ""}));
  EXPECT_EQ(*Read(R"({"user": null})", wanted), (Texts{"", "", ""}));
}

TEST(JsonColumns, BlankRecordsAreNoRows) {
  EXPECT_EQ(*Read("", {"a"}), Texts{"no row"});
  EXPECT_EQ(*Read(" \t\r", {"a"}), Texts{"no row"});
}

TEST(JsonColumns, ErrorsNameColumnOrByteExpectedAndFound) {
  const auto error = [](std::string_view record) {
    const Result<Texts> row = Read(record, {"a", "u.b"});
    EXPECT_EQ(row.status().code(), Code::kCorrupt) << record;
    return row.status().message();
  };
  constexpr char kExpected[] =
      "expected a string, a number, true, false, null or an array of these, found ";
  EXPECT_EQ(error(R"({"a": {"b": 1}})"), std::string("column 'a': ") + kExpected + "an object");
  EXPECT_EQ(error(R"({"a": [[1]]})"), std::string("column 'a': ") + kExpected + "an array");
  EXPECT_EQ(error(R"({"u": {"b": {}}})"), std::string("column 'u.b': ") + kExpected + "an object");
  EXPECT_EQ(error("[1]"), "expected a JSON object, found an array");
  EXPECT_EQ(error("7"), "expected a JSON object, found a number");
  EXPECT_EQ(error(R"({"a" 1})"), "byte 6: expected ':', found \"1}\"");
  EXPECT_EQ(error(R"({"a": 1)"), "byte 8: expected ',' or '}', found the end");
  EXPECT_EQ(error(R"({"a": 1} x)"), "byte 10: expected the end of the record, found \"x\"");
  EXPECT_EQ(error(R"({"a": nan})"), "byte 7: expected a JSON value, found \"nan}\"");
  EXPECT_EQ(error(R"({"a": 1e999})"),
            "byte 7: expected a number in the range of a double, found \"1e999}\"");
  EXPECT_EQ(error(R"({"x": 18446744073709551616})"),
            "byte 7: expected an integer of at most 64 bits, found \"18446744073709551616\"");
  EXPECT_EQ(error("{\"a\": \"\xff\"}"), "byte 8: expected UTF-8, found \"\\xff\"}\"");
  EXPECT_EQ(error(R"({"a": "\ud800"})"),
            "byte 8: expected two surrogates, high and low, found \"\\ud800\"}\"");
  EXPECT_EQ(error("{\"a\": \"x\ty\"}"),
            "byte 9: expected no control character in a string, found \"\\x09y\"}\"");
  EXPECT_EQ(error(R"({"a": "x)"), "byte 9: expected a closing quote, found the end");
  const std::string deep = "{\"a\": " + std::string(2000, '[') + std::string(2000, ']') + "}";
  EXPECT_NE(error(deep).find("expected fewer values inside each other"), std::string::npos);
}

TEST(JsonColumns, EveryTruncationIsAnError) {
  const std::string record = R"({"a": [1, -2.5e3, "x\u00e9"], "u": {"b": true}, "n": null})";
  JsonColumns reader({"a", "u.b"});
  FieldRow row;
  for (size_t size = 1; size < record.size(); ++size) {
    const Result<bool> read = reader.Read(record.substr(0, size), row);
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_NE(read.status().message().find("expected "), std::string::npos);
  }
  ASSERT_TRUE(*reader.Read(record, row));
  EXPECT_EQ(RowTexts(row), (Texts{"1 -2500d \"x\xc3\xa9\"", "\"true\""}));
}

// One reader, rows whose members come and go and change their order.
TEST(JsonColumns, OrderOfMembersMayChangeFromRowToRow) {
  const Texts wanted = {"a", "b", "o.c", "d"};
  JsonColumns reader(wanted);
  FieldRow row;
  const std::pair<std::string, Texts> cases[] = {
      {R"({"a":1,"z":0,"b":2,"o":{"y":0,"c":3},"d":4})", {"1", "2", "3", "4"}},
      {R"({"a":1,"z":0,"b":2,"o":{"y":0,"c":3},"d":4})", {"1", "2", "3", "4"}},
      {R"({"d":4,"o":{"c":3,"y":0},"b":2,"z":0,"a":1})", {"1", "2", "3", "4"}},
      {R"({"b":2,"new":7,"d":5})", {"", "2", "", "5"}},
      {R"({"a":1,"b":2,"d":5})", {"1", "2", "", "5"}},
      {R"({"o":{"c":9}})", {"", "", "9", ""}},
  };
  for (int pass = 0; pass < 3; ++pass) {
    for (const auto& [record, expected] : cases) {
      ASSERT_TRUE(*reader.Read(record, row));
      EXPECT_EQ(RowTexts(row), expected) << record;
    }
  }
  // More names than are remembered.
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(
        *reader.Read("{\"x" + std::to_string(i) + "\":1,\"a\":" + std::to_string(i) + "}", row));
    ASSERT_EQ(RowTexts(row)[0], std::to_string(i));
  }
}

}  // namespace
}  // namespace millrace::io
