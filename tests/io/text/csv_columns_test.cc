// SPDX-License-Identifier: Apache-2.0
#include "io/text/csv_columns.h"

#include <gtest/gtest.h>

#include "io/base/random.h"
#include "tests/support/field_rows.h"

namespace millrace::io {
namespace {

using test::RowTexts;
using Texts = std::vector<std::string>;

Result<Texts> Read(std::string_view record, const Texts& columns, const Texts& wanted,
                   char delimiter = ',') {
  CsvColumns reader(columns, delimiter, wanted);
  FieldRow row;
  ASSIGN_OR_RETURN(const bool is_row, reader.Read(record, row));
  return is_row ? RowTexts(row) : Texts{"no row"};
}

TEST(CsvColumns, CellsGoToTheirColumns) {
  const Texts names = {"a", "b", "c"};
  EXPECT_EQ(*Read("1,x y,0.5", names, names), (Texts{R"("1")", R"("x y")", R"("0.5")"}));
  EXPECT_EQ(*Read("1,2,3", names, {"c", "a"}), (Texts{R"("3")", R"("1")"}));
  EXPECT_EQ(*Read("1,2,3", names, {}), Texts{});
  EXPECT_EQ(*Read("1,2,3", names, {"absent", "b"}), (Texts{"", R"("2")"}));
  EXPECT_EQ(*Read("1\t2\t3", names, {"b"}, '\t'), (Texts{R"("2")"}));
  EXPECT_EQ(*Read("1;2,5;3", names, {"b"}, ';'), (Texts{R"("2,5")"}));
  EXPECT_EQ(*Read("1|2|3", names, {"b"}, '|'), (Texts{R"("2")"}));
}

TEST(CsvColumns, EmptyCellsAreMissingAndAnEmptyRecordIsNoRow) {
  const Texts names = {"a", "b", "c"};
  EXPECT_EQ(*Read(",,", names, names), (Texts{"", "", ""}));
  EXPECT_EQ(*Read("\"\",, ", names, names), (Texts{"", "", R"(" ")"}));
  EXPECT_EQ(*Read("", names, names), (Texts{"no row"}));
  EXPECT_EQ(*Read("", {"a"}, {"a"}), (Texts{"no row"}));
}

TEST(CsvColumns, QuotedCellsMayContainDelimitersQuotesAndLineEnds) {
  const Texts names = {"a", "b", "c"};
  EXPECT_EQ(*Read("\"1,2\",\"x\ny\",\"\"\"q\"\" \"\"\"", names, names),
            (Texts{"\"1,2\"", "\"x\ny\"", "\"\"q\" \"\""}));
  EXPECT_EQ(*Read("\"a\",\"\"\"\",c", names, names), (Texts{"\"a\"", "\"\"\"", "\"c\""}));
}

TEST(CsvColumns, UnescapedTextsAreViewsOfTheRecord) {
  const std::string record = "plain,\"quoted\",\"an \"\"escape\"\"\"";
  CsvColumns reader({"a", "b", "c"}, ',', {"a", "b", "c"});
  FieldRow row;
  ASSERT_TRUE(*reader.Read(record, row));
  EXPECT_EQ(row.column(0)[0].text, record.data());
  EXPECT_EQ(row.column(1)[0].text, record.data() + 7);
  EXPECT_EQ(row.column(2)[0].AsText(), "an \"escape\"");
}

TEST(CsvColumns, BytesThatAreNotUtf8Stay) {
  EXPECT_EQ(*Read("M\xfcller,\xff", {"a", "b"}, {"a", "b"}), (Texts{"\"M\xfcller\"", "\"\xff\""}));
}

TEST(CsvColumns, ErrorsNameCellByteExpectedAndFound) {
  const auto error = [](std::string_view record, char delimiter = ',') {
    const Result<Texts> row = Read(record, {"id", "name", "age"}, {"id"}, delimiter);
    EXPECT_EQ(row.status().code(), Code::kCorrupt) << record;
    return row.status().message();
  };
  EXPECT_EQ(error("1,2"),
            "expected 3 cells separated by ',', found 2; the first missing one is 'age'");
  EXPECT_EQ(error("1\t2\t3\t4", '\t'), "expected 3 cells separated by a tab, found 4");
  EXPECT_EQ(error("1,\"x,3"),
            "cell 2 (byte 3): expected a closing quote, found the end of the record");
  EXPECT_EQ(error("1,\"x\"y,3"),
            "cell 2 (byte 6): expected ',' or a line end after the closing quote, found \"y,3\"");
  EXPECT_EQ(error("1,5\" screen,3"),
            "cell 2 (byte 4): expected quotes around the whole cell, doubled inside, found "
            "\"5\" screen\"");
  // Broken quotes of a column that is not read are found as well.
  EXPECT_EQ(error("1,x,a\"b\""),
            "cell 3 (byte 6): expected quotes around the whole cell, doubled inside, found "
            "\"a\"b\"\"");
}

// Short texts of the bytes that matter, and long ones that cross chunks of 64 bytes.
std::string RandomRecord(Random& random, std::string_view alphabet) {
  std::string record;
  const uint64_t size = random.Below(random.Below(3) == 0 ? 300 : 12);
  for (uint64_t i = 0; i < size; ++i) record += alphabet[random.Below(alphabet.size())];
  return record;
}

TEST(CsvColumns, KernelsOfAllLevelsAgree) {
  size_t quotes = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string record = RandomRecord(random, seed % 2 == 0 ? ",\"a" : ",,,,,,abcdef\"");
    std::vector<uint32_t> plain(record.size() + kCsvIndexSlack), fast(plain);
    const CsvIndex expected = CsvIndexFor(CpuLevel::kPlain)(record, ',', plain.data());
    quotes += expected.quotes;
    for (const CpuLevel level : {CpuLevel::kSse42, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
      if (level > DetectCpuLevel()) continue;
      const CsvIndex found = CsvIndexFor(level)(record, ',', fast.data());
      ASSERT_EQ(found.quotes, expected.quotes);
      ASSERT_EQ(found.delimiters, expected.delimiters);
      ASSERT_TRUE(std::equal(fast.begin(), fast.begin() + static_cast<ptrdiff_t>(found.delimiters),
                             plain.begin()));
    }
  }
  EXPECT_GT(quotes, 10000u);
}

// The reader against the cell-by-cell parser: the same rows and the same errors.
TEST(CsvColumns, AgreesWithTheCellByCellParser) {
  size_t rows = 0;
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    Random random(seed);
    const std::string record = RandomRecord(random, seed % 3 == 0 ? ",\"\"a\n" : ",\"ab");
    if (record.empty()) continue;
    const Result<Texts> cells = SplitCsvRecord(record, ',');
    Texts names(cells.ok() ? cells->size() : 1 + random.Below(4));
    for (size_t i = 0; i < names.size(); ++i) names[i] = "c" + std::to_string(i);
    const Result<Texts> row = Read(record, names, names);
    ASSERT_EQ(row.ok(), cells.ok()) << record;
    if (!cells.ok()) {
      ASSERT_EQ(row.status().message(), cells.status().message());
      continue;
    }
    ++rows;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& cell = (*cells)[i];
      ASSERT_EQ((*row)[i], cell.empty() ? "" : '"' + cell + '"') << record;
    }
  }
  EXPECT_GT(rows, 1000u);
}

}  // namespace
}  // namespace millrace::io
