// SPDX-License-Identifier: Apache-2.0
#include "io/text/criteo_names.h"

#include <gtest/gtest.h>

#include <charconv>

#include "io/text/criteo.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

std::string Line(const std::string& i1, const std::string& c26) {
  return "1\t" + i1 + std::string(38, '\t') + c26;
}

TEST(CriteoNames, RangesHoldTheIntegersOfTheirToken) {
  for (const char* cell : {"0", "1", "7", "8", "12", "13", "100", "9223372036854775807", "-1", "-7",
                           "-9", "-100", "-9223372036854775808"}) {
    const std::string range = CriteoIntegerRange(CriteoToken(0, cell));
    const size_t dots = range.find("..");
    const std::string low = range.substr(0, dots);
    const std::string high = dots == range.npos ? low : range.substr(dots + 2);
    const double value = std::stod(cell);
    EXPECT_LE(std::stod(low), value) << cell << " in " << range;
    EXPECT_GE(std::stod(high), value) << cell << " in " << range;
  }
  EXPECT_EQ(CriteoIntegerRange(CriteoToken(0, "13")), "12..13");
  EXPECT_EQ(CriteoIntegerRange(CriteoToken(0, "-9")), "-9..-8");
  EXPECT_EQ(CriteoIntegerRange(CriteoToken(0, "0")), "0");
}

TEST(CriteoNames, EachKeyHasTheNameOfItsValue) {
  const test::TemporaryFolder folder;
  CriteoVocabulary vocabulary;
  CriteoLine split;
  for (const std::string& line : {Line("12", "6fcd6dcb"), Line("", "6fcd6dcb")}) {
    ASSERT_TRUE(*SplitCriteoLine(line, split));
    vocabulary.Count(split);
  }
  vocabulary.Freeze(1);
  ASSERT_TRUE(vocabulary.Save(folder / "vocabulary").ok());
  std::unordered_map<uint64_t, std::string> names;
  for (uint64_t key = 0; key < vocabulary.num_features() + 1; ++key) names[key] = "";
  const auto num_features = FillCriteoNames(folder / "vocabulary", names);
  ASSERT_TRUE(num_features.ok()) << num_features.status().message();
  EXPECT_EQ(*num_features, vocabulary.num_features());
  EXPECT_EQ(names[0], "I1=other");
  EXPECT_EQ(names[1], "I1=missing");
  EXPECT_EQ(names[2], "I1=12..13");
  EXPECT_EQ(names[vocabulary.num_features() - 1], "C26=6fcd6dcb");
  EXPECT_EQ(names[vocabulary.num_features()], "");
}

TEST(CriteoNames, EveryTruncationIsAnError) {
  const test::TemporaryFolder folder;
  CriteoVocabulary vocabulary;
  vocabulary.Freeze(1);
  ASSERT_TRUE(vocabulary.Save(folder / "vocabulary").ok());
  const std::string whole = test::ReadFile(folder / "vocabulary");
  for (size_t size = 0; size + 1 < whole.size(); ++size) {  // the last line end may be missing
    test::WriteFile(folder / "cut", whole.substr(0, size));
    std::unordered_map<uint64_t, std::string> names;
    EXPECT_FALSE(FillCriteoNames(folder / "cut", names).ok()) << size;
  }
}

}  // namespace
}  // namespace millrace::io
