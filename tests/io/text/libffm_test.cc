// SPDX-License-Identifier: Apache-2.0
#include "io/text/libffm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tests/support/text_lines.h"

namespace millrace::io {
namespace {

using test::Mutate;

SparseRow Parse(std::string_view line, int index_base = 0) {
  SparseRow row;
  const Result<bool> parsed = ParseLibffmLine(line, {.index_base = index_base}, row);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(parsed.ok() && *parsed) << "taken for a blank line: " << line;
  return row;
}

std::string ErrorOf(std::string_view line, int index_base = 0) {
  SparseRow row;
  const Result<bool> parsed = ParseLibffmLine(line, {.index_base = index_base}, row);
  if (parsed.ok()) return "(no error)";
  EXPECT_EQ(parsed.status().code(), Code::kCorrupt);
  return parsed.status().message();
}

TEST(Libffm, LabelFieldsIndicesAndValuesAreRead) {
  const SparseRow row = Parse("-1 0:3:1 2:11:0.5 1:4:-2e-1");
  EXPECT_EQ(row.label, -1);
  EXPECT_EQ(row.weight, 1);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{3, 11, 4}));
  EXPECT_EQ(row.values, (std::vector<float>{1, 0.5f, -0.2f}));
  EXPECT_EQ(row.fields, (std::vector<uint16_t>{0, 2, 1}));
}

TEST(Libffm, RowIsClearedFirst) {
  SparseRow row = Parse("1 1:1:1 2:2:2");
  ASSERT_TRUE(ParseLibffmLine("0 5:7:3", {}, row).ok());
  EXPECT_EQ(row.keys, std::vector<uint64_t>{7});
  EXPECT_EQ(row.fields, std::vector<uint16_t>{5});
}

TEST(Libffm, OrderIsFreeAndIndicesMayRepeat) {
  EXPECT_EQ(Parse("1 7:9:1 7:2:1 0:9:1").keys, (std::vector<uint64_t>{9, 2, 9}));
}

TEST(Libffm, BlankLinesCommentsAndCarriageReturnsAreTolerated) {
  for (const char* line : {"", " \t", "\r", "# 1 2:3:4", "  # x"}) {
    SparseRow row;
    const Result<bool> parsed = ParseLibffmLine(line, {}, row);
    EXPECT_TRUE(parsed.ok() && !*parsed) << line;
  }
  for (const char* line :
       {"1 0:2:3 1:4:5\r", "  +1.0\t0:2:+3 \t 1:4:5  ", "1 0:2:3 1:4:5# 6:7:8"}) {
    const SparseRow row = Parse(line);
    EXPECT_EQ(row.keys, (std::vector<uint64_t>{2, 4})) << line;
    EXPECT_EQ(row.values, (std::vector<float>{3, 5})) << line;
  }
  EXPECT_TRUE(Parse("1").keys.empty());
}

TEST(Libffm, LabelMayBeMissingWhereItIsOptional) {
  SparseRow row;
  const Result<bool> parsed = ParseLibffmLine("0:3:1 1:4:1", {.labels = Labels::kOptional}, row);
  ASSERT_TRUE(parsed.ok() && *parsed);
  EXPECT_TRUE(std::isnan(row.label));
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{3, 4}));
}

TEST(Libffm, IndexBaseIsSubtractedFromIndicesAlone) {
  const SparseRow row = Parse("1 1:1:1 0:5:1", 1);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{0, 4}));
  EXPECT_EQ(row.fields, (std::vector<uint16_t>{1, 0}));
  EXPECT_EQ(ErrorOf("1 3:0:1", 1), "column 5: expected an index from 1 on, found 0");
}

TEST(Libffm, NumbersReachTheirLimits) {
  const SparseRow row = Parse("1 65535:18446744073709551615:1");
  EXPECT_EQ(row.keys, std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(row.fields, std::vector<uint16_t>{65535});
  EXPECT_EQ(ErrorOf("1 65536:1:1"), "column 3: expected a field (0 to 65535), found \"65536:1:1\"");
  EXPECT_EQ(ErrorOf("1 0:18446744073709551616:1"),
            "column 5: expected an index (0 or more, at most 64 bits), found "
            "\"18446744073709551616:1\"");
}

TEST(Libffm, ErrorsNameColumnExpectedAndFound) {
  EXPECT_EQ(ErrorOf("x 1:2:3"), "column 1: expected a finite number as label, found \"x\"");
  EXPECT_EQ(ErrorOf("1:2:3"), "column 1: expected a label before the features, found \"1:2:3\"");
  EXPECT_EQ(ErrorOf("1 3:0.5"), "column 3: expected field:index:value, found \"3:0.5\"");
  EXPECT_EQ(ErrorOf("1 0:1:1 3"), "column 9: expected field:index:value, found \"3\"");
  EXPECT_EQ(ErrorOf("1 -1:2:3"), "column 3: expected a field (0 to 65535), found \"-1:2:3\"");
  EXPECT_EQ(ErrorOf("1 a:2:3"), "column 3: expected a field (0 to 65535), found \"a:2:3\"");
  EXPECT_EQ(ErrorOf("1 1:a:3"),
            "column 5: expected an index (0 or more, at most 64 bits), found \"a:3\"");
  EXPECT_EQ(ErrorOf("1 1:2:"), "column 7: expected a finite value after index 2, found nothing");
  EXPECT_EQ(ErrorOf("1 1:2:nan"), "column 7: expected a finite value after index 2, found \"nan\"");
  EXPECT_EQ(ErrorOf("1 1:2:3:4"), "column 7: expected a finite value after index 2, found \"3:4\"");
  EXPECT_EQ(ErrorOf("1 qid:3 1:2:3"), "column 3: expected field:index:value, found \"qid:3\"");
}

// Written another way on purpose.
bool PlainDecode(const std::string& line, SparseRow& row) {
  row.Clear();
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return false;
  row.label = std::stof(word);
  while (words >> word) {
    unsigned field = 0;
    unsigned long long index = 0;
    float value = 0;
    if (std::sscanf(word.c_str(), "%u:%llu:%f", &field, &index, &value) != 3) return false;
    row.Add(index, value);
    row.fields.push_back(static_cast<uint16_t>(field));
  }
  return true;
}

TEST(Libffm, AgreesWithAPlainDecoder) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string line = random.Below(2) == 0 ? "1" : "-1";
    for (uint64_t i = random.Below(20); i > 0; --i) {
      line += " " + std::to_string(random.Below(65536)) + ":" +
              std::to_string(random.Next() >> random.Below(64)) + ":" +
              std::to_string(static_cast<int>(random.Below(20)) - 10) +
              (random.Below(2) == 0 ? ".25" : "");
    }
    const SparseRow row = Parse(line);
    SparseRow plain;
    ASSERT_TRUE(PlainDecode(line, plain));
    EXPECT_EQ(row.label, plain.label);
    EXPECT_EQ(row.keys, plain.keys);
    EXPECT_EQ(row.values, plain.values);
    EXPECT_EQ(row.fields, plain.fields);
  }
}

TEST(Libffm, TruncatedAnywhereIsARowOrAnError) {
  const std::string line = "1 12:345:0.5 6:78:-1e3";
  for (size_t size = 1; size <= line.size(); ++size) {
    SCOPED_TRACE(size);
    SparseRow row, plain;
    const std::string part = line.substr(0, size);
    const Result<bool> parsed = ParseLibffmLine(part, {}, row);
    const bool whole = PlainDecode(part, plain);
    // scanf takes the beginning of a number like "-" or "1e" for nothing or for less.
    if (parsed.ok()) {
      EXPECT_TRUE(whole);
      EXPECT_EQ(row.keys, plain.keys);
    } else {
      EXPECT_TRUE(parsed.status().message().starts_with("column "));
    }
  }
}

TEST(Libffm, CorruptLinesNeverCrashAndNeverGiveBadRows) {
  const std::string lines[] = {"-1 0:3:1 7:11:0.5 65535:14:-2e-1", "+1 1:1:2 1:2:2 # note\r"};
  SparseRow row;
  for (uint64_t seed = 0; seed < 50000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string line = Mutate(lines[seed % std::size(lines)], random);
    const Result<bool> parsed =
        ParseLibffmLine(line, {.index_base = static_cast<int>(seed & 1)}, row);
    if (!parsed.ok() || !*parsed) continue;
    ASSERT_EQ(row.keys.size(), row.values.size());
    ASSERT_EQ(row.keys.size(), row.fields.size());
    ASSERT_TRUE(std::isfinite(row.label));
    for (const float value : row.values) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace millrace::io
