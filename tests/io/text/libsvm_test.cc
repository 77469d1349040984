// SPDX-License-Identifier: Apache-2.0
#include "io/text/libsvm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "tests/support/text_lines.h"

namespace millrace::io {
namespace {

using test::Mutate;
using test::ReadLines;
using test::SharedFile;

SparseRow Parse(std::string_view line, int index_base = 0) {
  SparseRow row;
  const Result<bool> parsed = ParseLibsvmLine(line, {.index_base = index_base}, row);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(parsed.ok() && *parsed) << "taken for a blank line: " << line;
  EXPECT_EQ(row.keys.size(), row.values.size());
  return row;
}

std::string ErrorOf(std::string_view line, int index_base = 0) {
  SparseRow row;
  const Result<bool> parsed = ParseLibsvmLine(line, {.index_base = index_base}, row);
  if (parsed.ok()) return "(no error)";
  EXPECT_EQ(parsed.status().code(), Code::kCorrupt);
  return parsed.status().message();
}

TEST(Libsvm, LabelAndPairsAreRead) {
  const SparseRow row = Parse("-1 3:1 11:0.5 14:-2e-1");
  EXPECT_EQ(row.label, -1);
  EXPECT_EQ(row.weight, 1);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{3, 11, 14}));
  EXPECT_EQ(row.values, (std::vector<float>{1, 0.5f, -0.2f}));
}

TEST(Libsvm, RowIsClearedFirst) {
  SparseRow row = Parse("1 1:1 2:2");
  ASSERT_TRUE(ParseLibsvmLine("0 7:3", {}, row).ok());
  EXPECT_EQ(row.keys, std::vector<uint64_t>{7});
  EXPECT_EQ(row.values, std::vector<float>{3});
}

TEST(Libsvm, LabelsMayBeAnyFiniteNumber) {
  EXPECT_EQ(Parse("+1").label, 1);
  EXPECT_EQ(Parse("-1").label, -1);
  EXPECT_EQ(Parse("0").label, 0);
  EXPECT_EQ(Parse("1.0").label, 1);
  EXPECT_EQ(Parse("+2.5e1").label, 25);
}

TEST(Libsvm, RowsWithoutFeaturesAreRows) {
  EXPECT_TRUE(Parse("1").keys.empty());
  EXPECT_TRUE(Parse("1.0     # empty line, all zeros").keys.empty());
}

TEST(Libsvm, BlankLinesAndCommentsAreSkipped) {
  for (const char* line : {"", " ", "\t \t", "\r", " \r", "# 1 2:3", "   # x", "#"}) {
    SparseRow row;
    const Result<bool> parsed = ParseLibsvmLine(line, {}, row);
    ASSERT_TRUE(parsed.ok()) << line;
    EXPECT_FALSE(*parsed) << line;
  }
}

TEST(Libsvm, BlanksCommentsQueryIdsAndCarriageReturnsAreTolerated) {
  for (const char* line : {"1 2:3 4:5\r", "  1\t2:3 \t 4:5  ", "1 2:3 4:5# note 6:7",
                           "1 qid:17 2:3 4:5", "1 2:+3 4:5.0 # 9:9\r", "+1 2:3.000 4:0.5e1"}) {
    const SparseRow row = Parse(line);
    EXPECT_EQ(row.label, 1) << line;
    EXPECT_EQ(row.keys, (std::vector<uint64_t>{2, 4})) << line;
    EXPECT_EQ(row.values, (std::vector<float>{3, 5})) << line;
  }
}

TEST(Libsvm, IndexBaseIsSubtracted) {
  EXPECT_EQ(Parse("1 1:1 5:1", 1).keys, (std::vector<uint64_t>{0, 4}));
  EXPECT_EQ(ErrorOf("1 0:1", 1), "column 3: expected an index from 1 on, found 0");
}

TEST(Libsvm, IndicesReachTheEndOf64Bits) {
  EXPECT_EQ(Parse("1 18446744073709551615:1").keys, std::vector<uint64_t>{UINT64_MAX});
  EXPECT_EQ(Parse("1 18446744073709551615:1", 1).keys, std::vector<uint64_t>{UINT64_MAX - 1});
  EXPECT_EQ(ErrorOf("1 18446744073709551616:1"),
            "column 3: expected an index of at most 64 bits, found \"18446744073709551616:1\"");
  EXPECT_EQ(ErrorOf("1 18446744073709551615:1 0:1"),
            "column 26: expected an index above 18446744073709551615 (they ascend), found 0");
}

TEST(Libsvm, UnorderedOrRepeatedIndicesAreNamed) {
  EXPECT_EQ(ErrorOf("-1 5:2.5 2:-5.2"),
            "column 10: expected an index above 5 (they ascend), found 2");
  EXPECT_EQ(ErrorOf("-1 5:2.5 5:1"),
            "column 10: expected an index above 5 (they ascend), found 5 again");
  EXPECT_EQ(ErrorOf("-1 5:2.5 4:1", 1),
            "column 10: expected an index above 5 (they ascend), found 4");
}

TEST(Libsvm, ErrorsNameColumnExpectedAndFound) {
  EXPECT_EQ(ErrorOf("python 2:2.5"),
            "column 1: expected a finite number as label, found \"python\"");
  EXPECT_EQ(ErrorOf("nan 2:2.5"), "column 1: expected a finite number as label, found \"nan\"");
  EXPECT_EQ(ErrorOf("1e40"), "column 1: expected a finite number as label, found \"1e40\"");
  EXPECT_EQ(ErrorOf("1,0 2:2.5"), "column 1: expected one label, found several: \"1,0\"");
  EXPECT_EQ(ErrorOf(" 2:3.5 11:26"),
            "column 2: expected a label before the features, found \"2:3.5\"");
  EXPECT_EQ(ErrorOf("1 -2:1"), "column 3: expected an index (0 or more), found \"-2:1\"");
  EXPECT_EQ(ErrorOf("1 x:1"), "column 3: expected an index (0 or more), found \"x:1\"");
  EXPECT_EQ(ErrorOf("1 2"), "column 3: expected index:value, found \"2\"");
  EXPECT_EQ(ErrorOf("1 2 :3"), "column 3: expected index:value, found \"2\"");
  EXPECT_EQ(ErrorOf("1 2:"), "column 5: expected a finite value after index 2, found nothing");
  EXPECT_EQ(ErrorOf("1 2: 3:4"), "column 5: expected a finite value after index 2, found nothing");
  EXPECT_EQ(ErrorOf("1 2:abc"), "column 5: expected a finite value after index 2, found \"abc\"");
  EXPECT_EQ(ErrorOf("1 2:3:4"), "column 5: expected a finite value after index 2, found \"3:4\"");
  EXPECT_EQ(ErrorOf("1 2:0x1"), "column 5: expected a finite value after index 2, found \"0x1\"");
  EXPECT_EQ(ErrorOf("1 qid:x 2:1"), "column 7: expected a query number after qid:, found \"x\"");
  EXPECT_EQ(ErrorOf("1 2:1 qid:3"), "column 7: expected an index (0 or more), found \"qid:3\"");
  EXPECT_EQ(ErrorOf(std::string_view("1 2:1\0", 6)),
            "column 5: expected a finite value after index 2, found \"1\\x00\"");
}

TEST(Libsvm, ValuesThatAreNotFiniteAreRefused) {
  for (const char* value : {"nan", "NaN", "inf", "-inf", "infinity", "1e39", "-1e400", "+-1"}) {
    EXPECT_EQ(
        ErrorOf("1 2:" + std::string(value)),
        "column 5: expected a finite value after index 2, found \"" + std::string(value) + "\"");
  }
}

TEST(Libsvm, ValuesBelowTheSmallestFloatAreZero) {
  EXPECT_EQ(Parse("1 1:1e-60 2:-1e-400 3:1e-40").values, (std::vector<float>{0, 0, 1e-40f}));
}

TEST(Libsvm, LongTokensAreCutInMessages) {
  const std::string message = ErrorOf("1 " + std::string(100000, 'z'));
  EXPECT_LT(message.size(), 120u);
  EXPECT_NE(message.find("zzz...\""), message.npos);
}

// Written another way on purpose: streams and strtod, no columns, no errors.
struct PlainRow {
  double label = 0;
  std::vector<std::pair<unsigned long, double>> features;
};
bool PlainDecode(std::string line, PlainRow& row) {
  row = {};
  line = line.substr(0, line.find('#'));
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return false;
  row.label = std::strtod(word.c_str(), nullptr);
  while (words >> word) {
    if (word.rfind("qid:", 0) == 0) continue;
    char* colon = nullptr;
    const unsigned long index = std::strtoul(word.c_str(), &colon, 10);
    row.features.emplace_back(index, std::strtod(colon + 1, nullptr));
  }
  return true;
}

struct KnownFile {
  const char* name;
  size_t rows;
  uint64_t max_index;
};

class LibsvmFile : public testing::TestWithParam<KnownFile> {};

TEST_P(LibsvmFile, AgreesWithAPlainDecoder) {
  const std::string path = SharedFile(std::string("libsvm/") + GetParam().name);
  SKIP_WITHOUT_SHARED_DATA();
  size_t rows = 0;
  uint64_t max_index = 0;
  SparseRow row;
  PlainRow plain;
  for (const std::string& line : ReadLines(path)) {
    const Result<bool> parsed = ParseLibsvmLine(line, {}, row);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message() << "\n" << line;
    ASSERT_EQ(*parsed, PlainDecode(line, plain)) << line;
    if (!*parsed) continue;
    ++rows;
    ASSERT_EQ(row.label, static_cast<float>(plain.label));
    ASSERT_EQ(row.keys.size(), plain.features.size());
    for (size_t i = 0; i < row.keys.size(); ++i) {
      ASSERT_EQ(row.keys[i], plain.features[i].first);
      // strtod and then a cast rounds twice, so the last bit may differ.
      ASSERT_FLOAT_EQ(row.values[i], static_cast<float>(plain.features[i].second));
      max_index = std::max(max_index, row.keys[i]);
    }
  }
  EXPECT_EQ(rows, GetParam().rows);
  EXPECT_EQ(max_index, GetParam().max_index);
}

INSTANTIATE_TEST_SUITE_P(Shared, LibsvmFile,
                         testing::Values(KnownFile{"a9a", 32561, 123},
                                         KnownFile{"a9a.t", 16281, 122},
                                         KnownFile{"agaricus.txt.train", 6513, 126},
                                         KnownFile{"agaricus.txt.test", 1611, 126},
                                         KnownFile{"heart_scale", 270, 13},
                                         KnownFile{"rcv1_100rows_difacto", 100, 47148},
                                         KnownFile{"spark_sample_libsvm_data.txt", 100, 692},
                                         KnownFile{"sklearn_svmlight_classification.txt", 6, 21}),
                         [](const auto& file) {
                           std::string name = file.param.name;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// The errors of a file's lines, "line: message".
std::vector<std::string> FileErrors(const std::string& path) {
  std::vector<std::string> errors;
  SparseRow row;
  size_t number = 0;
  for (const std::string& line : ReadLines(path)) {
    ++number;
    const Result<bool> parsed = ParseLibsvmLine(line, {}, row);
    if (!parsed.ok()) errors.push_back(std::to_string(number) + ": " + parsed.status().message());
  }
  return errors;
}

TEST(LibsvmFiles, InvalidOnesAreRefusedWhereTheyAreWrong) {
  SKIP_WITHOUT_SHARED_DATA();
  EXPECT_EQ(
      FileErrors(SharedFile("libsvm/sklearn_svmlight_invalid.txt")),
      std::vector<std::string>{"1: column 1: expected a finite number as label, found \"python\""});
  EXPECT_EQ(
      FileErrors(SharedFile("libsvm/sklearn_svmlight_invalid_order.txt")),
      std::vector<std::string>{"1: column 10: expected an index above 5 (they ascend), found 2"});
  EXPECT_EQ(FileErrors(SharedFile("libsvm/sklearn_svmlight_multilabel.txt")),
            (std::vector<std::string>{
                "2: column 1: expected one label, found several: \"1,0\"",
                "4: column 2: expected a label before the features, found \"2:3.5\"",
                "5: column 1: expected one label, found several: \"1,2\""}));
}

TEST(Libsvm, CorruptLinesNeverCrashAndNeverGiveBadRows) {
  const std::string lines[] = {"-1 3:1 11:0.5 14:-2e-1 18446744073709551615:7",
                               "+1 qid:3 1:1 2:2 # note", "0.5 1:1e-30 2:3.25 1000:12345678\r"};
  SparseRow row;
  for (uint64_t seed = 0; seed < 50000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string line = Mutate(lines[seed % std::size(lines)], random);
    const int index_base = static_cast<int>(seed & 1);
    const Result<bool> parsed = ParseLibsvmLine(line, {.index_base = index_base}, row);
    if (!parsed.ok() || !*parsed) continue;
    ASSERT_EQ(row.keys.size(), row.values.size());
    ASSERT_TRUE(std::isfinite(row.label));
    for (size_t i = 0; i < row.keys.size(); ++i) {
      ASSERT_TRUE(std::isfinite(row.values[i]));
      ASSERT_TRUE(i == 0 || row.keys[i - 1] < row.keys[i]);
    }
  }
}

}  // namespace
}  // namespace millrace::io
