// SPDX-License-Identifier: Apache-2.0
#include "io/base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "io/base/random.h"

namespace millrace::io {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  JsonWriter(out).String(text);
  return out;
}

std::string FloatText(float value) {
  std::string out;
  JsonWriter(out).Float(value);
  return out;
}

TEST(JsonWriter, AllControlCharactersAreEscaped) {
  EXPECT_EQ(Quoted("\x1b\x7f\xc2\x9b\xc2\xa0"), "\"\\u001b\\u007f\\u009b\xc2\xa0\"");
}

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("a");
  json.BeginArray();
  json.Int(-1);
  json.Uint(~uint64_t{0});
  json.BeginObject();
  json.EndObject();
  json.BeginArray();
  json.EndArray();
  json.EndArray();
  json.Key("b");
  json.Null();
  json.EndObject();
  EXPECT_EQ(out, R"({"a":[-1,18446744073709551615,{},[]],"b":null})");
}

TEST(JsonWriter, EscapesWhatJsonForbids) {
  EXPECT_EQ(Quoted("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\\u007f\"");
  EXPECT_EQ(Quoted("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  EXPECT_EQ(Quoted("a\xff\xc3"), "\"a\\ufffd\\ufffd\"");
  EXPECT_EQ(Quoted("\xc2\x9b\xc2\xa0"), "\"\\u009b\xc2\xa0\"") << "U+009B acts on terminals";
}

TEST(JsonWriter, FloatsComeBackBitForBit) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
    if (!std::isfinite(value)) continue;
    const std::string text = FloatText(value);
    ASSERT_EQ(std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr)),
              std::bit_cast<uint32_t>(value))
        << text;
    ASSERT_NE(text.find_first_of(".e"), std::string::npos) << text;
  }
}

TEST(JsonWriter, DoublesComeBackBitForBit) {
  Random random(2);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(random.Next());
    if (!std::isfinite(value)) continue;
    std::string text;
    JsonWriter(text).Double(value);
    ASSERT_EQ(std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr)),
              std::bit_cast<uint64_t>(value))
        << text;
  }
}

TEST(JsonWriter, WhatIsNoNumberIsAString) {
  EXPECT_EQ(FloatText(std::nanf("")), "\"NaN\"");
  EXPECT_EQ(FloatText(std::numeric_limits<float>::infinity()), "\"Infinity\"");
  EXPECT_EQ(FloatText(-std::numeric_limits<float>::infinity()), "\"-Infinity\"");
}

TEST(Base64, PadsEveryRemainder) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64(std::string_view("\0\xff\xfe\xfd", 4)), "AP/+/Q==");
}

}  // namespace
}  // namespace millrace::io
