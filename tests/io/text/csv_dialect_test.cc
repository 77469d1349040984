// SPDX-License-Identifier: Apache-2.0
#include "io/text/csv_dialect.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/record/byte_source.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

using Texts = std::vector<std::string>;

TEST(CsvDialect, DelimiterIsTheOneThatSplitsAllRecordsAlike) {
  const auto delimiter = [](std::string_view text) { return FindCsvDialect(text)->delimiter; };
  EXPECT_EQ(delimiter("a,b\n1,2\n"), ',');
  EXPECT_EQ(delimiter("a\tb\n1,5\t2\n"), '\t');
  EXPECT_EQ(delimiter("a;b\n1,5;2,5\n"), ';');
  EXPECT_EQ(delimiter("a|b|c\n1|2,2|3\n"), '|');
  EXPECT_EQ(delimiter("a,b\n\"1;2\n;\",2\n"), ',');
  // Consistent in both ways: the one with more cells.
  EXPECT_EQ(delimiter("a b;c,d;e\n1;2,3;4\n"), ';');
  // Consistent in none: the one with more records like the first.
  EXPECT_EQ(delimiter("a,b\n1,2\n3,4\n5\n"), ',');
  EXPECT_EQ(delimiter("word\n"), ',');
}

TEST(CsvDialect, HeaderIsDetectedByItsNames) {
  const auto header = [](std::string_view text) {
    const Result<CsvDialect> dialect = FindCsvDialect(text);
    return dialect->has_header ? dialect->header : "none";
  };
  EXPECT_EQ(header("id,name\r\n1,x\r\n"), "id,name");
  EXPECT_EQ(header("\xef\xbb\xbf"
                   "id,name\n1,x\n"),
            "id,name");
  EXPECT_EQ(header("\"id\",\"the\nname\"\n1,x\n"), "\"id\",\"the\nname\"");
  EXPECT_EQ(header("city,color\nparis,red\nrome,blue\n"), "city,color");
  EXPECT_EQ(header("id,name"), "id,name");
  EXPECT_EQ(header("1,x\n2,y\n"), "none");
  EXPECT_EQ(header("red,red\nblue,blue\n"), "none");
  EXPECT_EQ(header("paris,red\nrome,red\n"), "none");
  EXPECT_EQ(header("a,,b\n1,2,3\n"), "none");
  EXPECT_EQ(header(",a,b\n0,2,3\n"), ",a,b");
}

TEST(CsvDialect, ColumnsHaveNamesOrNumbers) {
  EXPECT_EQ(FindCsvDialect("id,\"a,\"\"b\"\"\"\n1,2\n")->columns, (Texts{"id", "a,\"b\""}));
  EXPECT_EQ(FindCsvDialect("1,2\n3,4\n")->columns, (Texts{"c1", "c2"}));
  EXPECT_EQ(FindCsvDialect(",a\n0,1\n")->columns, (Texts{"c1", "a"}));
  EXPECT_EQ(FindCsvDialect("a,b\n1,2\n", {.header = CsvHeader::kNo})->columns, (Texts{"c1", "c2"}));
  const CsvDialect asked = *FindCsvDialect("1,2\n3,4\n", {.header = CsvHeader::kYes});
  EXPECT_TRUE(asked.has_header);
  EXPECT_EQ(asked.columns, (Texts{"1", "2"}));
}

TEST(CsvDialect, GivenNamesMeanNoHeaderExceptTheSameNames) {
  const CsvDialect given = *FindCsvDialect("a,b\n1,2\n", {.columns = {"x", "y"}});
  EXPECT_FALSE(given.has_header);
  EXPECT_EQ(given.columns, (Texts{"x", "y"}));
  const CsvDialect same = *FindCsvDialect("a,b\n1,2\n", {.columns = {"a", "b"}});
  EXPECT_TRUE(same.has_header);
  EXPECT_EQ(same.header, "a,b");
}

TEST(CsvDialect, ErrorsNameTheFile) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "empty.csv", "");
  EXPECT_EQ(FindCsvDialectOfFile(folder / "empty.csv").status().message(),
            folder / "empty.csv" + ": expected rows of CSV text, found no rows");
  test::WriteFile(folder / "bad.csv", "a,\"b\n");
  EXPECT_EQ(FindCsvDialectOfFile(folder / "bad.csv", {.delimiter = ','}).status().message(),
            folder / "bad.csv" +
                ": first record: cell 2 (byte 3): expected a closing quote, found the end of the "
                "record");
  EXPECT_EQ(FindCsvDialectOfFile(folder / "absent.csv").status().code(), Code::kNotFound);
}

TEST(CsvDialect, AFirstRecordOfMoreThanTheFirstBytesIsAnError) {
  std::string record = "label";
  while (record.size() < kFirstBytes - 100) record += ",column" + std::to_string(record.size());
  const size_t columns = 1 + static_cast<size_t>(std::count(record.begin(), record.end(), ','));
  const std::string rows = std::string("\n") + std::string(kFirstBytes, ',') + "\n";
  const auto found = FindCsvDialect(record + rows, {});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->columns.size(), columns);
  const std::string long_record = record + "," + std::string(100, 'x');
  EXPECT_EQ(FindCsvDialect(long_record + rows, {}).status().message(),
            "first record: expected its end in the first 262144 bytes, found none");
  EXPECT_TRUE(FindCsvDialect(long_record + rows, {.columns = {"a", "b"}}).ok());
}

TEST(CsvDialect, WantedColumnsMustExistOnce) {
  const CsvDialect dialect = *FindCsvDialect("a,b,b\n1,2,3\n", {.header = CsvHeader::kYes});
  EXPECT_TRUE(CheckCsvColumns(dialect, {"a"}).ok());
  EXPECT_EQ(CheckCsvColumns(dialect, {"a", "x"}).message(),
            "column 'x': expected one of the columns a, b, b, found none of that name");
  EXPECT_EQ(CheckCsvColumns(dialect, {"b"}).message(),
            "column 'b': expected one column of that name, found 2");
}

TEST(CsvDialect, DelimitersHaveNames) {
  EXPECT_EQ(*CsvDelimiterFromName("tab"), '\t');
  EXPECT_EQ(*CsvDelimiterFromName(";"), ';');
  EXPECT_EQ(CsvDelimiterFromName("x").status().message(),
            "delimiter: expected ',', ';', '|' or tab, found \"x\"");
}

TEST(CsvDialect, ARecordThatIsCutOffDoesNotCount) {
  std::string text = "a,b\n";
  while (text.size() < (size_t{256} << 10)) text += "1,2\n";
  text.replace((size_t{256} << 10) - 4, 4, "1,\"\n");
  EXPECT_EQ(FindCsvDialect(text)->columns, (Texts{"a", "b"}));
  EXPECT_TRUE(LooksLikeCsv(text));
}

}  // namespace
}  // namespace millrace::io
