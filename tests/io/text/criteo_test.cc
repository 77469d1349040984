// SPDX-License-Identifier: Apache-2.0
#include "io/text/criteo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/support/text_lines.h"

namespace millrace::io {
namespace {

// label, I1.., C1..; cells that are not given are empty.
std::string Line(const std::string& label, const std::map<int, std::string>& cells = {}) {
  std::string line = label;
  for (int field = 0; field < kCriteoFields; ++field) {
    const auto cell = cells.find(field);
    line += '\t' + (cell == cells.end() ? "" : cell->second);
  }
  return line;
}

CriteoLine Split(std::string_view line) {
  CriteoLine out;
  const Result<bool> split = SplitCriteoLine(line, out);
  EXPECT_TRUE(split.ok()) << split.status().message();
  EXPECT_TRUE(split.ok() && *split);
  return out;
}

std::string ErrorOf(std::string_view line) {
  CriteoLine out;
  const Result<bool> split = SplitCriteoLine(line, out);
  if (split.ok()) return "(no error)";
  EXPECT_EQ(split.status().code(), Code::kCorrupt);
  return split.status().message();
}

SparseRow Encode(const CriteoKeys& keys, std::string_view line) {
  SparseRow row;
  keys.Encode(Split(line), row);
  EXPECT_EQ(row.keys.size(), static_cast<size_t>(kCriteoFields));
  EXPECT_EQ(row.values, std::vector<float>(kCriteoFields, 1.0f));
  return row;
}

using test::Mutate;
using test::ReadFile;
using test::ReadLines;
using test::SharedFile;
using test::WriteFile;

TEST(CriteoLine, CellsAreSplitAtTabs) {
  const std::string line = Line("1", {{0, "5"}, {12, "-2"}, {13, "6fcd6dcb"}, {38, "0ede8acc"}});
  const CriteoLine split = Split(line);
  EXPECT_EQ(split.label, 1);
  EXPECT_EQ(split.fields[0], "5");
  EXPECT_EQ(split.fields[1], "");
  EXPECT_EQ(split.fields[12], "-2");
  EXPECT_EQ(split.fields[13], "6fcd6dcb");
  EXPECT_EQ(split.fields[38], "0ede8acc");
}

TEST(CriteoLine, CarriageReturnIsDropped) {
  EXPECT_EQ(Split(Line("0", {{38, "ab"}}) + "\r").fields[38], "ab");
  EXPECT_EQ(Split(Line("0") + "\r").fields[38], "");
}

TEST(CriteoLine, BlankLinesAreSkipped) {
  CriteoLine out;
  for (const char* line : {"", "\r", "  ", " \r"}) {
    const Result<bool> split = SplitCriteoLine(line, out);
    ASSERT_TRUE(split.ok());
    EXPECT_FALSE(*split);
  }
}

TEST(CriteoLine, ErrorsNameExpectedAndFound) {
  const std::string columns =
      "expected 40 tab-separated columns (label, 13 integers, 26 categories), found ";
  EXPECT_EQ(ErrorOf("1"), columns + "1");
  EXPECT_EQ(ErrorOf(Line("1") + "\t"), columns + "41");
  EXPECT_EQ(ErrorOf(Line("1").substr(1, 38)), columns + "39");
  EXPECT_EQ(ErrorOf(Line("")), "column 1: expected the label 0 or 1, found \"\"");
  EXPECT_EQ(ErrorOf(Line("-1")), "column 1: expected the label 0 or 1, found \"-1\"");
  EXPECT_EQ(ErrorOf(Line("0", {{1, "x"}})),
            "column 4: expected a 64-bit integer or nothing as I2, found \"x\"");
  EXPECT_EQ(ErrorOf(Line("0", {{12, "9223372036854775808"}})),
            "column 15: expected a 64-bit integer or nothing as I13, found "
            "\"9223372036854775808\"");
  EXPECT_EQ(ErrorOf(Line("0", {{0, "1.5"}})),
            "column 3: expected a 64-bit integer or nothing as I1, found \"1.5\"");
  EXPECT_EQ(ErrorOf(Line("0", {{13, "6fcd6dcg"}})),
            "column 16: expected up to 8 hex digits or nothing as C1, found \"6fcd6dcg\"");
  EXPECT_EQ(ErrorOf(Line("0", {{38, "123456789"}})),
            "column 41: expected up to 8 hex digits or nothing as C26, found \"123456789\"");
  EXPECT_EQ(ErrorOf(Line("0", {{38, "-1"}})),
            "column 41: expected up to 8 hex digits or nothing as C26, found \"-1\"");
}

TEST(CriteoBucket, SmallNumbersStayApartAndBucketsAreAtMostAQuarterWide) {
  for (uint64_t x = 0; x < 8; ++x) EXPECT_EQ(CriteoBucket(x), x);
  EXPECT_EQ(CriteoBucket(8), CriteoBucket(9));
  EXPECT_EQ(CriteoBucket(10), 9u);
  EXPECT_EQ(CriteoBucket(16), 12u);
  uint64_t begin = 0;
  for (uint64_t x = 1; x < 100000; ++x) {
    const uint32_t step = CriteoBucket(x) - CriteoBucket(x - 1);
    ASSERT_LE(step, 1u) << x;
    if (step == 1) {
      ASSERT_TRUE(begin < 8 || (x - begin) * 4 <= begin) << x;
      begin = x;
    }
  }
  EXPECT_EQ(CriteoBucket(uint64_t{1} << 63), 248u);
  EXPECT_EQ(CriteoBucket(UINT64_MAX), 251u);
}

TEST(CriteoToken, MissingNegativeAndPositiveAreApart) {
  std::set<uint64_t> tokens;
  const char* cells[] = {"",
                         "0",
                         "1",
                         "2",
                         "3",
                         "-1",
                         "-2",
                         "-3",
                         "8",
                         "-8",
                         "9223372036854775807",
                         "-9223372036854775808"};
  for (const char* cell : cells) tokens.insert(CriteoToken(0, cell));
  EXPECT_EQ(tokens.size(), std::size(cells));
  EXPECT_EQ(CriteoToken(0, ""), 0u);
  EXPECT_EQ(CriteoToken(0, "0"), 1u);
  EXPECT_EQ(CriteoToken(0, "9223372036854775807"), 248u);
  EXPECT_EQ(CriteoToken(0, "-1"), 249u);
  EXPECT_EQ(*tokens.rbegin(), 496u);
}

TEST(CriteoToken, CategoriesAreTheirHexValue) {
  EXPECT_EQ(CriteoToken(13, ""), 0u);
  EXPECT_EQ(CriteoToken(13, "0"), 1u);
  EXPECT_EQ(CriteoToken(13, "00c5ffb7"), CriteoToken(13, "C5FFB7"));
  EXPECT_EQ(CriteoToken(38, "ffffffff"), uint64_t{1} << 32);
}

TEST(CriteoHasher, KeysDependOnFieldAndTokenAndStayBelowNumFeatures) {
  const std::string line = Line("1", {{0, "5"}, {1, "5"}, {20, "ab"}, {21, "ab"}});
  const SparseRow open = Encode(CriteoHasher(0), line);
  EXPECT_EQ(open.label, 1);
  EXPECT_EQ(std::set<uint64_t>(open.keys.begin(), open.keys.end()).size(), 39u);
  const CriteoHasher hasher(18);
  EXPECT_EQ(hasher.num_features(), uint64_t{1} << 18);
  EXPECT_EQ(CriteoHasher(0).num_features(), 0u);
  const SparseRow row = Encode(hasher, line);
  for (int i = 0; i < kCriteoFields; ++i) EXPECT_EQ(row.keys[i], open.keys[i] & 0x3ffff);
}

// Models that were trained on one version's keys are used with the next: they must never change.
TEST(CriteoHasher, KeysKeepTheirValues) {
  const SparseRow row = Encode(CriteoHasher(0), Line("0", {{0, "5"}, {38, "0ede8acc"}}));
  EXPECT_EQ(row.keys[0], 0x94102f31bc44b860u);
  EXPECT_EQ(row.keys[38], 0xfcf2b8e7d215ebf4u);
}

CriteoVocabulary SmallVocabulary(uint64_t min_count) {
  CriteoVocabulary vocabulary;
  for (const char* cell : {"3", "1", "3", "-1", ""}) {
    const std::string line = Line("0", {{0, cell}, {13, "ff"}});
    vocabulary.Count(Split(line));
  }
  vocabulary.Freeze(min_count);
  return vocabulary;
}

TEST(CriteoVocabulary, KeysGoByFieldThenToken) {
  const CriteoVocabulary vocabulary = SmallVocabulary(1);
  // I1: unseen, missing, 1, 3, -1; the other 38 fields: unseen and one value.
  EXPECT_EQ(vocabulary.num_features(), 5u + 38 * 2);
  const SparseRow row = Encode(vocabulary, Line("0", {{0, "3"}, {13, "ff"}}));
  EXPECT_EQ(row.keys[0], 3u);
  for (uint64_t field = 1; field < 39; ++field) EXPECT_EQ(row.keys[field], 4 + 2 * field);
  EXPECT_EQ(Encode(vocabulary, Line("0")).keys[0], 1u);
  EXPECT_EQ(Encode(vocabulary, Line("0", {{0, "-1"}})).keys[0], 4u);
}

TEST(CriteoVocabulary, UnseenAndRareValuesShareTheReservedKey) {
  const CriteoVocabulary vocabulary = SmallVocabulary(2);
  EXPECT_EQ(vocabulary.num_features(), 2u + 38 * 2);
  EXPECT_EQ(Encode(vocabulary, Line("0", {{0, "3"}})).keys[0], 1u);
  for (const char* cell : {"", "1", "-1", "77"}) {
    EXPECT_EQ(Encode(vocabulary, Line("0", {{0, cell}})).keys[0], 0u) << cell;
  }
  const SparseRow row = Encode(vocabulary, Line("0", {{13, "fe"}}));
  EXPECT_EQ(row.keys[13], 2u + 2 * 12);
}

TEST(CriteoVocabulary, OrderOfCountingMakesNoDifference) {
  const std::string lines[] = {Line("0", {{0, "1"}, {14, "b"}}), Line("1", {{0, "9"}, {14, "a"}})};
  CriteoVocabulary forward, backward;
  for (int i = 0; i < 2; ++i) {
    forward.Count(Split(lines[i]));
    backward.Count(Split(lines[1 - i]));
  }
  forward.Freeze(1);
  backward.Freeze(1);
  for (const std::string& line : lines) {
    EXPECT_EQ(Encode(forward, line).keys, Encode(backward, line).keys);
  }
}

TEST(CriteoVocabulary, FileRoundTripGivesTheSameKeysAndTheSameFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "saved", again = folder / "again";
  const CriteoVocabulary saved = SmallVocabulary(1);
  ASSERT_TRUE(saved.Save(path).ok());
  const Result<CriteoVocabulary> loaded = CriteoVocabulary::Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->num_features(), saved.num_features());
  for (const char* cell : {"", "1", "3", "-1", "5"}) {
    const std::string line = Line("1", {{0, cell}, {13, cell}});
    if (cell[0] == '-') continue;
    EXPECT_EQ(Encode(*loaded, line).keys, Encode(saved, line).keys);
  }
  ASSERT_TRUE(loaded->Save(again).ok());
  EXPECT_EQ(ReadFile(again), ReadFile(path));
}

TEST(CriteoVocabulary, SavedFileReadsAsDocumented) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "documented";
  ASSERT_TRUE(SmallVocabulary(2).Save(path).ok());
  const std::vector<std::string> lines = ReadLines(path);
  ASSERT_EQ(lines.size(), 3u + 78 + 1);
  EXPECT_EQ(lines[0], "# millrace criteo vocabulary 1");
  EXPECT_EQ(lines[1], "# num_features 78 min_count 2");
  EXPECT_EQ(lines[2], "field\tvalue\tkey\tcount");
  EXPECT_EQ(lines[3], "I1\t*\t0\t3");
  EXPECT_EQ(lines[4], "I1\t4\t1\t2");
  EXPECT_EQ(lines[5], "I2\t*\t2\t0");
  EXPECT_EQ(lines[6], "I2\t\t3\t5");
  EXPECT_EQ(lines[30], "C1\t000000ff\t27\t5");
}

TEST(CriteoVocabulary, EveryCorruptByteAndEveryTruncationIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "corrupt";
  ASSERT_TRUE(SmallVocabulary(1).Save(path).ok());
  const std::string good = ReadFile(path);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 1;
    WriteFile(path, bad);
    EXPECT_FALSE(CriteoVocabulary::Load(path).ok()) << "byte " << at;
    // The last line counts without its \n too.
    if (at + 1 == good.size()) continue;
    WriteFile(path, good.substr(0, at));
    EXPECT_FALSE(CriteoVocabulary::Load(path).ok()) << "cut to " << at;
  }
  WriteFile(path, good + "more\n");
  EXPECT_FALSE(CriteoVocabulary::Load(path).ok());
}

TEST(CriteoVocabulary, ExtensionKeepsOldKeysAndNumbersNewValues) {
  const test::TemporaryFolder folder;
  CriteoVocabulary old = SmallVocabulary(1);
  const uint64_t old_size = old.num_features();
  ASSERT_TRUE(old.Save(folder / "old").ok());
  Result<CriteoVocabulary> grown = CriteoVocabulary::Load(folder / "old");
  ASSERT_TRUE(grown.ok());
  grown->Extend();
  // Values of two fields are new: one twice, one once. Old ones come again.
  grown->Count(Split(Line("1", {{0, "77"}, {13, "ff"}, {20, "beef"}})));
  grown->Count(Split(Line("1", {{0, "77"}, {13, "ff"}})));
  grown->Freeze(2);
  EXPECT_EQ(grown->num_features(), old_size + 1);
  EXPECT_EQ(Encode(*grown, Line("0", {{0, "77"}})).keys[0], old_size);
  // Rare: the key of unseen values.
  EXPECT_EQ(Encode(*grown, Line("0", {{20, "beef"}})).keys[20],
            Encode(*grown, Line("0", {{20, "cafe"}})).keys[20]);
  for (const std::string& line : {Line("0"), Line("0", {{0, "3"}}), Line("0", {{0, "-1"}})}) {
    EXPECT_EQ(Encode(*grown, line).keys, Encode(old, line).keys);
  }

  // The file keeps all of it, and a second extension continues from there.
  ASSERT_TRUE(grown->Save(folder / "grown").ok());
  Result<CriteoVocabulary> again = CriteoVocabulary::Load(folder / "grown");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Encode(*again, Line("0", {{0, "77"}})).keys,
            Encode(*grown, Line("0", {{0, "77"}})).keys);
  again->Extend();
  again->Count(Split(Line("1", {{5, "9"}, {13, "ff"}})));
  again->Freeze(1);
  EXPECT_EQ(Encode(*again, Line("0", {{5, "9"}})).keys[5], old_size + 1);
  EXPECT_EQ(Encode(*again, Line("0", {{0, "77"}})).keys[0], old_size);
}

TEST(CriteoVocabulary, AKeyThatTwoValuesHaveIsRejected) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(SmallVocabulary(1).Save(folder / "v").ok());
  std::string text = ReadFile(folder / "v");
  const size_t at = text.find("I2\t*\t");
  ASSERT_NE(at, text.npos);
  text[at + 5] = '0';
  WriteFile(folder / "v", text);
  const Status status = CriteoVocabulary::Load(folder / "v").status();
  EXPECT_NE(status.message().find("once, found 0 twice"), std::string::npos) << status.message();
}

TEST(CriteoVocabulary, ErrorsNameFileLineExpectedAndFound) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "errors";
  ASSERT_TRUE(SmallVocabulary(1).Save(path).ok());
  std::string text = ReadFile(path);
  text.replace(text.find("I2\t*"), 4, "I3\t*");
  WriteFile(path, text);
  const Result<CriteoVocabulary> loaded = CriteoVocabulary::Load(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().message(), path +
                                           ":9: expected field I2, value *, a key below 81 and a "
                                           "count, found \"I3\\x09*\\x095\\x090\"");
  EXPECT_EQ(CriteoVocabulary::Load(folder / "absent").status().code(), Code::kNotFound);
}

TEST(CriteoFile, AgreesWithAPlainDecoder) {
  const std::string path = SharedFile("criteo/day_11_first_3000.tsv");
  SKIP_WITHOUT_SHARED_DATA();
  const std::vector<std::string> lines = ReadLines(path);
  ASSERT_EQ(lines.size(), 3000u);
  CriteoVocabulary vocabulary;
  std::vector<std::set<std::string>> seen(kCriteoFields);
  size_t clicks = 0, missing = 0;
  double sum = 0;
  for (const std::string& line : lines) {
    const CriteoLine split = Split(line);
    vocabulary.Count(split);
    clicks += split.label == 1;
    // Read from the right, cell by cell.
    std::string rest = line;
    for (int field = kCriteoFields - 1; field >= 0; --field) {
      const size_t tab = rest.rfind('\t');
      const std::string cell = rest.substr(tab + 1);
      rest.resize(tab);
      ASSERT_EQ(split.fields[field], cell);
      missing += cell.empty();
      if (field < kCriteoIntegers && !cell.empty()) sum += std::stod(cell);
      seen[field].insert(cell);
    }
    ASSERT_EQ(rest, split.label == 1 ? "1" : "0");
  }
  EXPECT_EQ(clicks, 92u);
  EXPECT_EQ(missing, 13433u);
  EXPECT_EQ(sum, 64080942);

  vocabulary.Freeze(1);
  std::set<uint64_t> keys;
  for (const std::string& line : lines) {
    const SparseRow row = Encode(vocabulary, line);
    keys.insert(row.keys.begin(), row.keys.end());
  }
  // Every value was seen, so only the reserved key of each field is unused.
  EXPECT_EQ(keys.size() + kCriteoFields, vocabulary.num_features());
  size_t categories = 0;
  for (int field = kCriteoIntegers; field < kCriteoFields; ++field)
    categories += seen[field].size();
  EXPECT_GT(vocabulary.num_features(), categories + kCriteoFields);
  EXPECT_LT(vocabulary.num_features(), categories + kCriteoFields + 13 * 100);
}

TEST(CriteoLine, CorruptLinesNeverCrash) {
  const std::string good = Line("1", {{0, "5"}, {3, "-20"}, {13, "6fcd6dcb"}, {38, "0ede8acc"}});
  const CriteoHasher hasher(10);
  for (uint64_t seed = 0; seed < 50000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string line = Mutate(good, random);
    CriteoLine split;
    const Result<bool> parsed = SplitCriteoLine(line, split);
    if (!parsed.ok() || !*parsed) continue;
    SparseRow row;
    hasher.Encode(split, row);
    ASSERT_EQ(row.keys.size(), 39u);
    for (const uint64_t key : row.keys) ASSERT_LT(key, 1024u);
  }
}

}  // namespace
}  // namespace millrace::io
