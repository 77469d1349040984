// SPDX-License-Identifier: Apache-2.0
#include "tools/common/json_cursor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::tools {
namespace {

TEST(JsonCursorTest, ReadsNestedValuesAndEscapes) {
  const std::string text =
      R"( {"a" : [1, -2.5e3, {"b\n\u00e9\ud83d\ude00": null}], "c":"\"\\", "d": true, "e":"12"} )";
  JsonCursor json(text);
  std::vector<double> numbers;
  std::string key_inside, c;
  int64_t e = 0;
  json.Object([&](std::string_view key) {
    if (key == "a") {
      json.Array([&] {
        if (json.Peek() != '{') return numbers.push_back(json.Double());
        json.Object([&](std::string_view inner) {
          key_inside = inner;
          json.Skip();
        });
      });
    } else if (key == "c") {
      c = json.String();
    } else if (key == "e") {
      e = json.Int();
    } else {
      json.Skip();
    }
  });
  EXPECT_TRUE(json.status().ok()) << json.status().message();
  EXPECT_EQ(numbers, (std::vector<double>{1, -2500}));
  EXPECT_EQ(key_inside, "b\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(c, "\"\\");
  EXPECT_EQ(e, 12);
}

TEST(JsonCursorTest, EveryTruncationIsAnError) {
  const std::string text = R"({"a":[1,{"b":"x\u0041"}],"c":true})";
  for (size_t size = 0; size < text.size(); ++size) {
    JsonCursor json(std::string_view(text).substr(0, size), "cut");
    json.Object([&](std::string_view) { json.Skip(); });
    EXPECT_FALSE(json.status().ok()) << size;
    EXPECT_NE(json.status().message().find("cut: offset"), std::string::npos);
  }
}

TEST(JsonCursorTest, HalfASurrogatePairIsReplaced) {
  EXPECT_EQ(JsonCursor(R"("\ud83d\ude00")").String(), "\xf0\x9f\x98\x80");
  for (const char* half : {R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")"})
    EXPECT_EQ(JsonCursor(half).String(), "\xef\xbf\xbd") << half;
}

TEST(JsonCursorTest, IntegersBeyondTheLimitAreErrors) {
  for (const char* text : {"11", "-11", "\"11\"", "9223372036854775808"}) {
    JsonCursor json(text);
    json.Int(10);
    EXPECT_FALSE(json.status().ok()) << text;
  }
  EXPECT_EQ(JsonCursor("-10").Int(10), -10);
}

TEST(JsonCursorTest, MessagesHaveNoControlCharacters) {
  JsonCursor json("\x1b[2J");
  json.Skip();
  EXPECT_NE(json.status().message().find("found '\\x1b[2J'"), std::string::npos)
      << json.status().message();
}

TEST(JsonCursorTest, DepthIsBounded) {
  const std::string deep = std::string(100000, '[').append(100000, ']');
  JsonCursor json(deep);
  json.Skip();
  EXPECT_FALSE(json.status().ok());
}

}  // namespace
}  // namespace millrace::tools
