// SPDX-License-Identifier: Apache-2.0
#include "io/text/vw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "io/base/string_hash.h"
#include "io/state/state_fields.h"
#include "tests/support/text_lines.h"

namespace millrace::io {
namespace {

using test::Mutate;
using test::ReadLines;
using test::SharedFile;

SparseRow Parse(std::string_view line, const VwOptions& options = {}) {
  SparseRow row;
  const Result<bool> parsed = ParseVwLine(line, options, row);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE(parsed.ok() && *parsed) << "taken for a blank line: " << line;
  EXPECT_EQ(row.keys.size(), row.values.size());
  return row;
}

std::string ErrorOf(std::string_view line) {
  SparseRow row;
  const Result<bool> parsed = ParseVwLine(line, {}, row);
  if (parsed.ok()) return "(no error)";
  EXPECT_EQ(parsed.status().code(), Code::kCorrupt);
  return parsed.status().message();
}

uint64_t NameKey(std::string_view space, std::string_view name) {
  return HashString(name, HashString(space));
}

TEST(Vw, LabelImportanceAndFeaturesAreRead) {
  const SparseRow row = Parse("-1 2.5 0 'first|f 13:0.5 age:-3 |g 7 age");
  EXPECT_EQ(row.label, -1);
  EXPECT_EQ(row.weight, 2.5f);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{NameKey("f", "13"), NameKey("f", "age"),
                                             NameKey("g", "7"), NameKey("g", "age")}));
  EXPECT_EQ(row.values, (std::vector<float>{0.5f, -3, 1, 1}));
}

TEST(Vw, TagsAreIgnored) {
  for (const char* line : {"1 |f a", "1 'tag |f a", "1 'tag|f a", "1 tag|f a", "1 1 tag|f a",
                           "1 1 0 'tag|f a", "1 1.0 'it's |f a", "  1 \t '|f a"}) {
    const SparseRow row = Parse(line);
    EXPECT_EQ(row.label, 1) << line;
    EXPECT_EQ(row.weight, 1) << line;
    EXPECT_EQ(row.keys, std::vector<uint64_t>{NameKey("f", "a")}) << line;
  }
}

TEST(Vw, ScaleMultipliesTheNamespaceAlone) {
  const SparseRow row = Parse("1 |f:0.5 1:4 2 |g 3:4");
  EXPECT_EQ(row.values, (std::vector<float>{2, 0.5f, 4}));
}

TEST(Vw, NamespacesMayTouchAndRepeat) {
  const SparseRow row = Parse("1 |f a|g b|f c| d |");
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{NameKey("f", "a"), NameKey("g", "b"),
                                             NameKey("f", "c"), NameKey("", "d")}));
}

TEST(Vw, EqualNamesOfTwoNamespacesHaveTwoKeys) {
  for (const int bits : {0, 18, 24, 32, 33, 64}) {
    const SparseRow row = Parse("1 |user 7 x |ad 7 x | 7 x", {.hash_bits = bits});
    EXPECT_EQ(std::set<uint64_t>(row.keys.begin(), row.keys.end()).size(), 6u) << bits;
  }
}

TEST(Vw, RawNumbersKeepTheirValueInAnyNamespace) {
  const VwOptions raw = {.hash_all = false};
  const SparseRow row = Parse("1 |f 12 18446744073709551615 007 |g 12 | 12", raw);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{12, UINT64_MAX, 7, 12, 12}));
  const std::string beyond = "18446744073709551616";
  EXPECT_EQ(Parse("1 |f " + beyond, raw).keys, std::vector<uint64_t>{NameKey("f", beyond)});
  EXPECT_EQ(Parse("1 |f -3", raw).keys, std::vector<uint64_t>{NameKey("f", "-3")});
  EXPECT_EQ(Parse("1 |f 1000", {.hash_bits = 9, .hash_all = false}).keys,
            std::vector<uint64_t>{1000 & 511});
}

// Values of SMHasher's verification and of VW's own tests.
TEST(StringHash, Murmur3HasThePublishedValues) {
  EXPECT_EQ(Murmur3("", 0), 0u);
  EXPECT_EQ(Murmur3("", 1), 0x514e28b7u);
  EXPECT_EQ(Murmur3("", 0xffffffffu), 0x81f16f39u);
  EXPECT_EQ(Murmur3({"\0\0\0\0", 4}, 0), 0x2362f9deu);
  EXPECT_EQ(Murmur3("a", 0x9747b28cu), 0x7fa09ea6u);
  EXPECT_EQ(Murmur3("aaaa", 0x9747b28cu), 0x5a97808au);
  EXPECT_EQ(Murmur3("Hello, world!", 0x9747b28cu), 0x24884cbau);
  EXPECT_EQ(Murmur3("t", 0), 3397902157u);
  EXPECT_EQ(Murmur3("te", 0), 3988319771u);
  EXPECT_EQ(Murmur3("tes", 0), 196677210u);
  EXPECT_EQ(Murmur3("test", 0), 3127628307u);
  EXPECT_EQ(Murmur3("tested", 25436347), 3592599130u);
  EXPECT_EQ(Murmur3("\xd6\xd3\xc3\xe3\xa3", 1342134), 1029777931u);
}

// The hashall of VW 9 gives these values. docs/formats.md has them too.
TEST(Vw, KeysUpTo32BitsAreThoseOfVw) {
  const std::string_view line = "1 |user 7 |ad 7 | 7 |u country=DE";
  EXPECT_EQ(Parse(line, {.hash_bits = 18}).keys,
            (std::vector<uint64_t>{192815, 208938, 165416, 2679}));
  EXPECT_EQ(Parse(line, {.hash_bits = 32}).keys,
            (std::vector<uint64_t>{1570173231, 845623338, 602572328, 2209090167}));
  EXPECT_EQ(Parse(line).keys, (std::vector<uint64_t>{16964239731395763000u, 5951070407807975529u,
                                                     7854154277964732685u, 14193969964077446147u}));
}

TEST(Vw, HashBitsKeepTheLowestBits) {
  for (const auto& [most, first] : {std::pair{32, 1}, {64, 33}}) {
    const SparseRow wide = Parse("1 |f age 1000 x:2", {.hash_bits = most});
    for (int bits = first; bits <= most; ++bits) {
      const SparseRow row = Parse("1 |f age 1000 x:2", {.hash_bits = bits});
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(row.keys[i], MaskKey(wide.keys[i], bits)) << bits;
    }
  }
  EXPECT_EQ(Parse("1 |f age", {.hash_bits = 64}).keys, Parse("1 |f age").keys);
}

TEST(Vw, BlankLinesAndCommentsAreSkipped) {
  for (const char* line : {"", " ", "\r", "\t\r", "# 1 |f a", "  # x"}) {
    SparseRow row;
    const Result<bool> parsed = ParseVwLine(line, {}, row);
    ASSERT_TRUE(parsed.ok()) << line;
    EXPECT_FALSE(*parsed) << line;
  }
}

TEST(Vw, RowsWithoutFeaturesAreRows) {
  EXPECT_TRUE(Parse("1 |").keys.empty());
  EXPECT_TRUE(Parse("1 |f\r").keys.empty());
}

TEST(Vw, ErrorsNameColumnExpectedAndFound) {
  EXPECT_EQ(ErrorOf("|f a"), "column 1: expected a label and a blank before '|', found none");
  EXPECT_EQ(ErrorOf("'t |f a"),
            "column 4: expected a label and a blank before '|', found only a tag");
  EXPECT_EQ(ErrorOf("1|f a"),
            "column 2: expected a label and a blank before '|', found only a tag");
  EXPECT_EQ(ErrorOf("1 2:3 4:5"),
            "column 10: expected '|' before the features, found the end of line");
  EXPECT_EQ(ErrorOf("yes |f a"), "column 1: expected a finite number as label, found \"yes\"");
  EXPECT_EQ(ErrorOf("inf |f a"), "column 1: expected a finite number as label, found \"inf\"");
  EXPECT_EQ(ErrorOf("1 -2 |f a"),
            "column 3: expected a finite importance of 0 or more, found \"-2\"");
  EXPECT_EQ(ErrorOf("1 2 0.5 |f a"), "column 5: expected a base of 0, found \"0.5\"");
  EXPECT_EQ(ErrorOf("1 2 0 4 |f a"),
            "column 7: expected a tag or '|' after label, importance and base, found \"4\"");
  EXPECT_EQ(ErrorOf("1 'a b |f a"), "column 6: expected '|' after the tag, found \"b\"");
  EXPECT_EQ(ErrorOf("1 |f:x a"), "column 6: expected a finite scale of the namespace, found \"x\"");
  EXPECT_EQ(ErrorOf("1 |f a:"), "column 8: expected a finite value, found nothing");
  EXPECT_EQ(ErrorOf("1 |f a:nan"), "column 8: expected a finite value, found \"nan\"");
  EXPECT_EQ(ErrorOf("1 |f a:1:2"), "column 8: expected a finite value, found \"1:2\"");
  EXPECT_EQ(ErrorOf("1 |f :3"), "column 6: expected a feature name before ':', found \":3\"");
  EXPECT_EQ(ErrorOf("1 |f:1e30 a:1e30"),
            "column 12: expected a value that stays finite when scaled, found \"a:1e30\"");
}

TEST(StringHash, DependsOnEveryByteTheLengthAndTheSeed) {
  std::set<uint64_t> hashes;
  size_t texts = 0;
  for (size_t size = 0; size < 20; ++size) {
    std::string text(size, '\0');
    hashes.insert(HashString(text));
    hashes.insert(HashString(text, 1));
    texts += 2;
    for (size_t at = 0; at < size; ++at) {
      text[at] = 'x';
      hashes.insert(HashString(text));
      ++texts;
      text[at] = '\0';
    }
  }
  EXPECT_EQ(hashes.size(), texts);
}

// Files that were converted with one version are read with the next: the values must never change.
TEST(StringHash, KeepsItsValues) {
  EXPECT_EQ(HashString(""), 0xe220a8397b1dcdafu);
  EXPECT_EQ(HashString("age", HashString("f")), 0xdfa6c8ac1fd5b8f0u);
  EXPECT_EQ(HashString("a longer feature name", HashString("")), 0xeecc1efe52935b97u);
}

TEST(StringHash, LowBitsAreSpreadEvenly) {
  std::vector<int> counts(256);
  constexpr int kNames = 256 * 1000;
  for (int i = 0; i < kNames; ++i) ++counts[HashString("user_" + std::to_string(i)) & 255];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 360);  // 255 degrees of freedom: 1 in 100,000
}

// Written another way on purpose: streams and strtod.
struct PlainRow {
  double label = 0;
  std::vector<std::pair<std::string, double>> features;
};
PlainRow PlainDecode(const std::string& line) {
  PlainRow row;
  row.label = std::strtod(line.c_str(), nullptr);
  std::istringstream words(line.substr(line.find('|')));
  std::string word;
  words >> word;  // the namespace
  while (words >> word) {
    const size_t colon = word.find(':');
    const double value =
        colon == word.npos ? 1 : std::strtod(word.substr(colon + 1).c_str(), nullptr);
    row.features.emplace_back(word.substr(0, colon), value);
  }
  return row;
}

struct KnownFile {
  const char* name;
  const char* space;
  size_t rows;
  size_t features;
  size_t positives;
};

class VwFile : public testing::TestWithParam<KnownFile> {};

TEST_P(VwFile, AgreesWithAPlainDecoder) {
  const std::string path = SharedFile(std::string("vw/") + GetParam().name);
  SKIP_WITHOUT_SHARED_DATA();
  size_t rows = 0, features = 0, positives = 0;
  for (const std::string& line : ReadLines(path)) {
    const SparseRow row = Parse(line);
    const PlainRow plain = PlainDecode(line);
    ++rows;
    features += row.keys.size();
    positives += row.label > 0;
    ASSERT_EQ(row.label, static_cast<float>(plain.label));
    ASSERT_EQ(row.keys.size(), plain.features.size());
    for (size_t i = 0; i < row.keys.size(); ++i) {
      const auto& [name, value] = plain.features[i];
      ASSERT_EQ(row.keys[i], NameKey(GetParam().space, name));
      ASSERT_FLOAT_EQ(row.values[i], static_cast<float>(value));
    }
  }
  EXPECT_EQ(rows, GetParam().rows);
  EXPECT_EQ(features, GetParam().features);
  EXPECT_EQ(positives, GetParam().positives);
}

INSTANTIATE_TEST_SUITE_P(Shared, VwFile,
                         testing::Values(KnownFile{"rcv1_small.dat", "f", 1000, 77739, 459},
                                         KnownFile{"0001.dat", "features", 200, 15282, 91}),
                         [](const auto& file) { return file.param.space; });

TEST(Vw, CorruptLinesNeverCrashAndNeverGiveBadRows) {
  const std::string lines[] = {"-1 2.5 0 'first|f:2 13:0.5 age:-3 |g 7 age",
                               "1 |features 13:3.9656971e-02 const:.01\r", "0 tag| a b:1e-30 c"};
  SparseRow row;
  for (uint64_t seed = 0; seed < 50000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string line = Mutate(lines[seed % std::size(lines)], random);
    const VwOptions options = {.hash_bits = static_cast<int>(seed % 65), .hash_all = seed % 2 == 0};
    const Result<bool> parsed = ParseVwLine(line, options, row);
    if (!parsed.ok() || !*parsed) continue;
    ASSERT_EQ(row.keys.size(), row.values.size());
    ASSERT_TRUE(std::isfinite(row.label) && std::isfinite(row.weight) && row.weight >= 0);
    for (const float value : row.values) ASSERT_TRUE(std::isfinite(value));
    for (const uint64_t key : row.keys) ASSERT_EQ(key, MaskKey(key, options.hash_bits));
  }
}

// The values of a column with their weights: "a:1 b:2".
std::string Values(const FieldRow& row, size_t column) {
  std::string text;
  for (const FieldValue& value : row.column(column)) {
    text +=
        (text.empty() ? "" : " ") + std::string(value.AsText()) + ":" + NumberText(value.weight);
  }
  return text;
}

TEST(VwColumnsTest, NamespacesAreColumnsAndNamesAreValues) {
  VwColumns columns({"label", "weight", "tag", "user", "ad", "none", "|", "|label"});
  FieldRow row;
  ASSERT_TRUE(*columns.Read("-1 2.5 'id7|user a b:3 |ad:2 c d:0.5 |label x | n |other y\r", row));
  const std::string expected[] = {"-1:1", "2.5:1", "id7:1", "a:1 b:3", "c:2 d:1", "", "n:1", "x:1"};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(Values(row, i), expected[i]) << i;
}

TEST(VwColumnsTest, ARepeatedNamespaceHasTheValuesOfAll) {
  VwColumns columns({"label", "b", "a", "|b"});
  FieldRow row;
  ASSERT_TRUE(*columns.Read("1 |a 1 2 |b 3 |a 4 |b 5", row));
  EXPECT_EQ(Values(row, 1), "3:1 5:1");
  EXPECT_EQ(Values(row, 2), "1:1 2:1 4:1");
  EXPECT_EQ(Values(row, 3), "3:1 5:1");
}

TEST(VwColumnsTest, LabelAndImportanceMayBeMissing) {
  VwColumns columns({"label", "weight", "a"});
  FieldRow row;
  ASSERT_TRUE(*columns.Read("|a x", row));
  EXPECT_EQ(Values(row, 0), "");
  EXPECT_EQ(Values(row, 1), "1:1");
  EXPECT_FALSE(*columns.Read("# a comment", row));
  EXPECT_EQ(columns.Read("1 2 3 a x", row).status().message(),
            "column 10: expected '|' before the features, found the end of line");
  EXPECT_FALSE(columns.Read("1 |a x:nan", row).ok());
}

TEST(VwColumnsTest, NamesOfTheColumnsOfALine) {
  EXPECT_EQ(*VwColumnNames("1 0.5 |b x |a y | z |tag w |b v |c"),
            (std::vector<std::string>{"label", "weight", "b", "a", "|", "|tag"}));
  EXPECT_EQ(*VwColumnNames("|b x"), std::vector<std::string>{"b"});
  EXPECT_TRUE(VwColumnNames("").value().empty());
}

}  // namespace
}  // namespace millrace::io
