// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_query.h"

#include "tests/io/table/duckdb_test.h"

namespace millrace::io {
namespace {

class TableQueryTest : public DuckDbTest {
 protected:
  std::string ErrorOf(const std::string& source) {
    const auto query = TableQuery::Open(duckdb_, source, {});
    if (!query.ok()) return query.status().message();
    while (true) {
      const Result<bool> more = (*query)->Fetch();
      if (!more.ok()) return more.status().message();
      if (!*more) return "";
    }
  }
  void ExpectError(const std::string& source, const std::string& expected) {
    const std::string found = ErrorOf(source);
    EXPECT_NE(found.find(expected), std::string::npos) << found;
  }
};

TEST(LoadDuckDb, MissingLibraryIsAnErrorThatSaysHowToGetIt) {
  const auto missing = LoadDuckDb("/no/libduckdb.so");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("/no/libduckdb.so"), std::string::npos);
  EXPECT_NE(missing.status().message().find("tools/get_duckdb.sh"), std::string::npos);
  const auto other = LoadDuckDb("libc.so.6");
  ASSERT_FALSE(other.ok()) << "a name without folder is a file of this folder";
  const auto foreign = LoadDuckDb("/lib/x86_64-linux-gnu/libm.so.6");
  if (!foreign.ok()) {
    EXPECT_NE(foreign.status().message().find("libm.so.6"), std::string::npos);
  }
}

TEST(IsQuery, TellsQueriesFromFiles) {
  EXPECT_TRUE(IsQuery("sql:SELECT 1"));
  EXPECT_FALSE(IsQuery("data/sql:1.parquet"));
  EXPECT_EQ(TableName("a.parquet"), "a.parquet");
  EXPECT_EQ(TableName("sql:" + std::string(200, 'x')), "sql:" + std::string(96, 'x') + "...");
}

TEST_F(TableQueryTest, RowsComeInChunks) {
  const auto query =
      TableQuery::Open(duckdb_, "sql:SELECT i AS a, 'x' AS b FROM range(5000) t(i)", {});
  ASSERT_TRUE(query.ok()) << query.status().message();
  EXPECT_EQ((*query)->names(), (std::vector<std::string>{"a", "b"}));
  uint64_t rows = 0;
  while (*(*query)->Fetch()) {
    const auto* values = static_cast<const int64_t*>(duckdb_->vector_get_data((*query)->vector(0)));
    for (uint64_t i = 0; i < (*query)->rows(); ++i)
      ASSERT_EQ(values[i], static_cast<int64_t>(rows++));
  }
  EXPECT_EQ(rows, 5000u);
  const Result<bool> again = (*query)->Fetch();
  EXPECT_TRUE(again.ok() && !*again) << "the end stays the end";
}

// The whole result would need 800 GB.
TEST_F(TableQueryTest, ResultIsNotMaterialized) {
  const auto query = TableQuery::Open(duckdb_, "sql:SELECT i FROM range(100000000000) t(i)", {});
  ASSERT_TRUE(query.ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(*(*query)->Fetch());
}

TEST_F(TableQueryTest, StatementsBeforeTheQueryAreRun) {
  EXPECT_EQ(ErrorOf("sql:SET threads = 2; CREATE TABLE t AS SELECT 1 AS a; SELECT a FROM t;"), "");
}

TEST_F(TableQueryTest, OneThreadUnlessTheQuerySaysOtherwise) {
  const auto query =
      TableQuery::Open(duckdb_, "sql:SELECT CAST(current_setting('threads') AS BIGINT)", {});
  ASSERT_TRUE(query.ok() && *(*query)->Fetch());
  EXPECT_EQ(*static_cast<const int64_t*>(duckdb_->vector_get_data((*query)->vector(0))), 1);
}

TEST_F(TableQueryTest, FileNamesAreNoPatterns) {
  for (const char* name : {"a[1]*?'x.parquet", "a1.parquet"}) {
    Run("COPY (SELECT 7 AS a) TO '" + (folder_ / "plain") + "' (FORMAT parquet)");
    test::WriteFile(folder_ / name, test::ReadFile(folder_ / "plain"));
    EXPECT_EQ(ErrorOf(folder_ / name), "") << name;
  }
}

TEST_F(TableQueryTest, ErrorsNameTheSourceAndTheProblem) {
  ExpectError("sql:SELECT FORM x", "sql:SELECT FORM x: DuckDB: ");
  ExpectError("sql:SELECT 1 FORM x y", "syntax error at or near");
  ExpectError("sql:SELECT a FROM (SELECT 1 AS b)", "column \"a\" not found");
  ExpectError("sql:", "expected a SELECT, found no statement");
  ExpectError("sql:CREATE TABLE t (a INT)", "expected a SELECT as the last statement");
  ExpectError("sql:SET no_such_setting = 1; SELECT 1", "no_such_setting");
  ExpectError("sql:SELECT * FROM read_parquet('" + (folder_ / "none") + "')", "none");
  ExpectError("sql:SELECT CAST(s AS INT) FROM (VALUES ('1'), ('x')) t(s)", "Could not convert");
  ExpectError(folder_ / "none.parquet", "none.parquet: cannot open: No such file");
  ExpectError("-", "standard input: expected a regular file");
  ExpectError("/dev/null", "/dev/null: expected a regular file");
}

TEST_F(TableQueryTest, TruncatedParquetIsAnError) {
  Run("COPY (SELECT i AS a, 'text ' || i AS b FROM range(100) t(i)) TO '" + (folder_ / "whole") +
      "' (FORMAT parquet)");
  const std::string whole = test::ReadFile(folder_ / "whole");
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 6) {
    test::WriteFile(folder_ / "cut.parquet", whole.substr(0, size));
    ExpectError(folder_ / "cut.parquet", "cut.parquet: DuckDB: ");
  }
}

}  // namespace
}  // namespace millrace::io
