// SPDX-License-Identifier: Apache-2.0
#include "io/table/table_reader.h"

#include <set>
#include <sstream>

#include "io/features/field_value.h"
#include "io/queue/input_queue.h"
#include "tests/io/table/duckdb_test.h"

namespace millrace::io {
namespace {

using Rows = std::vector<std::string>;

class TableReaderTest : public DuckDbTest {
 protected:
  // A line per row: its number, then the values of each column after a |, with their kind.
  Rows Read(const std::string& source, const BlockOptions& options, Status* error = nullptr,
            std::vector<uint64_t>* digests = nullptr) {
    Rows rows;
    const auto reader = TableReader::Open(source, options);
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    if (!reader.ok()) return rows;
    TableColumns columns(options.table->columns, options.table->columns);
    FieldRow row;
    Block block;
    while (true) {
      const Result<bool> more = (*reader)->Next(block);
      if (error) *error = more.status();
      if (!more.ok() || !*more) break;
      EXPECT_FALSE(block.records.empty());
      if (digests) digests->push_back(block.digest);
      for (size_t i = 0; i < block.records.size(); ++i) {
        EXPECT_TRUE(*columns.Read(block.record(i), row));
        rows.push_back(std::to_string(block.offset(i, Framing::kTable)) + Text(row));
      }
    }
    return rows;
  }

  static std::string Text(const FieldRow& row) {
    std::string text;
    for (size_t column = 0; column < row.columns(); ++column) {
      text += "|";
      for (const FieldValue& value : row.column(column)) {
        ValueText room;
        text += "tifd"[static_cast<size_t>(value.kind)] + std::string(TextOf(value, room)) + ",";
      }
    }
    return text;
  }

  // Adds an expression and the value that it becomes, for CheckValues.
  void ExpectValue(const std::string& expression, const std::string& expected) {
    expressions_ +=
        (expected_.empty() ? "" : ", ") + expression + " AS c" + std::to_string(expected_.size());
    expected_.push_back(expected);
  }
  // One query for all.
  void CheckValues() {
    const std::string source = "sql:SELECT " + expressions_;
    std::string row = "0";
    for (const std::string& expected : expected_) row += "|" + expected;
    EXPECT_EQ(Read(source, Options(source)), Rows{row});
  }

  std::string expressions_;
  Rows expected_;
};

TEST_F(TableReaderTest, TypesBecomeValues) {
  for (const char* type : {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}) {
    ExpectValue("CAST(-100 AS " + std::string(type) + ")", "i-100,");
  }
  for (const char* type : {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}) {
    ExpectValue("CAST(200 AS " + std::string(type) + ")", "i200,");
  }
  ExpectValue("9223372036854775807::UBIGINT", "i9223372036854775807,");
  ExpectValue("18446744073709551615::UBIGINT", "t18446744073709551615,");
  ExpectValue("9223372036854775808::HUGEINT", "t9223372036854775808,");
  ExpectValue("(-9223372036854775808)::HUGEINT", "i-9223372036854775808,");
  ExpectValue("(-170141183460469231731687303715884105727)::HUGEINT",
              "t-170141183460469231731687303715884105727,");
  ExpectValue("340282366920938463463374607431768211455::UHUGEINT",
              "t340282366920938463463374607431768211455,");
  ExpectValue("true", "ttrue,");
  ExpectValue("false", "tfalse,");
  ExpectValue("0.1::FLOAT", "f0.1,");
  ExpectValue("0.1::DOUBLE", "d0.1,");
  for (const char* type : {"DECIMAL(4,2)", "DECIMAL(9,2)", "DECIMAL(18,2)", "DECIMAL(38,2)"}) {
    ExpectValue("(-12.50)::" + std::string(type), "d-12.5,");
  }
  for (const char* type : {"DECIMAL(4,0)", "DECIMAL(9,0)", "DECIMAL(18,0)", "DECIMAL(38,0)"}) {
    ExpectValue("(-12)::" + std::string(type), "i-12,");
  }
  ExpectValue("'text'", "ttext,");
  ExpectValue("''", "");
  ExpectValue("'exactly 12 b'", "texactly 12 b,");
  ExpectValue(
      "repeat('long ', 100)", "t" + [] {
        std::string text;
        for (int i = 0; i < 100; ++i) text += "long ";
        return text;
      }() + ",");
  ExpectValue("repeat('x', 239)", "t" + std::string(239, 'x') + ",");
  ExpectValue("repeat('x', 240)", "t" + std::string(240, 'x') + ",");
  ExpectValue("'a\\xFF'::BLOB", "ta\xff,");
  ExpectValue("'b'::ENUM('a', 'b')", "tb,");
  ExpectValue("NULL::INT", "");
  ExpectValue("NULL", "");
  ExpectValue("[1, NULL, 3]", "i1,i3,");
  ExpectValue("['a', '', 'c']", "ta,tc,");
  ExpectValue("[]::INT[]", "");
  ExpectValue("NULL::VARCHAR[]", "");
  ExpectValue("[DATE '2024-05-31']", "t2024-05-31,");
  ExpectValue("[12.5, 1]::DECIMAL(4,1)[]", "d12.5,d1,");
  CheckValues();
}

TEST_F(TableReaderTest, DatesAreTextsAsDuckDbPrintsThem) {
  const char* const values[] = {"DATE '2024-02-29'",
                                "DATE '1970-01-01'",
                                "DATE '1969-12-31'",
                                "DATE '0001-01-01'",
                                "DATE '0044-03-15 (BC)'",
                                "DATE '12345-06-07'",
                                "DATE 'infinity'",
                                "DATE '-infinity'",
                                "TIMESTAMP '2024-05-31 17:04:05.25'",
                                "TIMESTAMP '1969-12-31 23:59:59.999999'",
                                "TIMESTAMP '1900-01-01'",
                                "TIMESTAMP 'infinity'",
                                "TIMESTAMP '-infinity'",
                                "TIMESTAMP_S '2024-05-31 17:04:05'",
                                "TIMESTAMP_MS '2024-05-31 17:04:05.120'",
                                "TIMESTAMP_NS '2024-05-31 17:04:05.000000120'"};
  std::string source = "sql:SELECT ";
  for (const std::string value : values) source += value + ", (" + value + ")::VARCHAR, ";
  source += "TIMESTAMPTZ '2024-05-31 17:04:05+02', '2024-05-31 15:04:05+00'";
  const std::string days =
      "sql:SELECT a, a::VARCHAR AS b FROM (SELECT DATE '1500-01-01' + (i * 370)::INT AS a FROM "
      "range(1000) t(i))";
  for (const std::string& query : {source, days}) {
    for (const std::string& row : Read(query, Options(query))) {
      std::istringstream cells(row.substr(row.find('|') + 1));
      for (std::string ours, theirs;
           std::getline(cells, ours, '|') && std::getline(cells, theirs, '|');) {
        EXPECT_EQ(ours, theirs);
      }
    }
  }
}

TEST_F(TableReaderTest, NullsAreMissingInEveryColumn) {
  const std::string source =
      "sql:SELECT CASE WHEN i % 2 = 0 THEN i END AS a, CASE WHEN i % 3 = 0 THEN 'x' || i END AS b, "
      "CASE WHEN i % 5 = 0 THEN [i, i + 1] END AS c FROM range(5000) t(i)";
  const Rows rows = Read(source, Options(source));
  ASSERT_EQ(rows.size(), 5000u);
  for (int i = 0; i < 5000; ++i) {
    const std::string n = std::to_string(i);
    ASSERT_EQ(rows[static_cast<size_t>(i)],
              n + "|" + (i % 2 == 0 ? "i" + n + "," : "") + "|" +
                  (i % 3 == 0 ? "tx" + n + "," : "") + "|" +
                  (i % 5 == 0 ? "i" + n + ",i" + std::to_string(i + 1) + "," : ""));
  }
}

TEST_F(TableReaderTest, RowsDoNotDependOnTheBlockSize) {
  Run("COPY (SELECT i AS a, CASE WHEN i % 7 > 0 THEN repeat('s', i % 300) END AS b FROM "
      "range(7000) "
      "t(i)) TO '" +
      (folder_ / "x.parquet") + "' (FORMAT parquet, ROW_GROUP_SIZE 2500)");
  const std::string source = folder_ / "x.parquet";
  const Rows rows = Read(source, Options(source));
  ASSERT_EQ(rows.size(), 7000u);
  EXPECT_EQ(rows[5], "5|i5,|tsssss,");
  for (const size_t block_bytes : {1, 5000, 100'000'000}) {
    EXPECT_EQ(Read(source, Options(source, block_bytes)), rows) << block_bytes;
  }
}

// The same rows from other chunks: block boundaries and digests are those of the rows.
TEST_F(TableReaderTest, DigestsDependOnTheRowsAlone) {
  const std::string rows = "SELECT i AS a, 'text ' || i AS b FROM range(9000) t(i)";
  for (const char* group : {"2048", "3000"}) {
    Run("COPY (" + rows + ") TO '" + (folder_ / group) + "' (FORMAT parquet, ROW_GROUP_SIZE " +
        group + ")");
  }
  std::vector<uint64_t> digests[4];
  Read("sql:" + rows, Options("sql:" + rows, 10000), nullptr, &digests[0]);
  Read(folder_ / "2048", Options(folder_ / "2048", 10000), nullptr, &digests[1]);
  Read(folder_ / "3000", Options(folder_ / "3000", 10000), nullptr, &digests[2]);
  EXPECT_GT(digests[0].size(), 10u);
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
  const std::string other =
      "sql:SELECT CASE WHEN a = 8999 THEN 1 ELSE a END AS a, b FROM (" + rows + ")";
  Read(other, Options(other, 10000), nullptr, &digests[3]);
  ASSERT_EQ(digests[3].size(), digests[0].size());
  EXPECT_EQ(digests[3][0], digests[0][0]);
  EXPECT_NE(digests[3].back(), digests[0].back());
}

TEST_F(TableReaderTest, LongRowIsAnErrorAfterTheRowsBeforeIt) {
  const std::string source =
      "sql:SELECT CASE WHEN i = 300 THEN repeat('x', 2000) ELSE 'y' END AS a FROM range(400) t(i)";
  BlockOptions options = Options(source);
  options.max_record_bytes = 1000;
  Status error;
  EXPECT_EQ(Read(source, options, &error).size(), 300u);
  EXPECT_NE(error.message().find("row 301: expected at most 1000 bytes, found 2013"),
            std::string::npos)
      << error.message();
}

// DuckDB holds up to 2,048 rows at a time, and its memory_limit does not count them.
TEST_F(TableReaderTest, ParquetFilesOfLongRowsAreRefusedBeforeTheyAreRead) {
  const auto write = [&](const char* name, const std::string& row, int rows) {
    Run("COPY (SELECT " + row +
        " AS a, 'long' || repeat('z', 90000) || i AS \"b, c\", i AS d FROM "
        "range(" +
        std::to_string(rows) + ") t(i)) TO '" + (folder_ / name) + "' (FORMAT parquet)");
    return folder_ / name;
  };
  const auto open = [&](const std::string& path) {
    BlockOptions options = {.framing = Framing::kTable, .max_record_bytes = 100000};
    const auto table = FindTableColumns(kFetched, path, {"a", "d"});
    EXPECT_TRUE(table.ok()) << table.status().message();
    options.table = *table;
    return TableReader::Open(path, options).status().message();
  };
  // 3.2 MB are allowed: the other column is not read.
  EXPECT_EQ(open(write("short.parquet", "repeat('x', 1000) || i", 2048)), "");
  const std::string path = write("text.parquet", "repeat('x', 2000) || i", 2048);
  EXPECT_TRUE(open(path).starts_with(
      path +
      ": expected at most 3200000 bytes in the 2048 rows that DuckDB reads at a time, found "
      "about 41"))
      << open(path);
  EXPECT_EQ(open(write("few.parquet", "repeat('x', 2000) || i", 1000)), "");
  const std::string list = "list_transform(range(4000), x -> 'v')";  // 4,000 equal texts: few bytes
  EXPECT_NE(open(write("list.parquet", list, 100)).find("found about 6"), std::string::npos);
  EXPECT_EQ(open(write("list.parquet", list, 30)), "");
}

TEST_F(TableReaderTest, ErrorWhileTheQueryRunsIsReported) {
  const std::string source =
      "sql:SELECT CASE WHEN i = 20000 THEN CAST('x' || i AS BIGINT) END AS a FROM range(30000) "
      "t(i)";
  Status error;
  EXPECT_LE(Read(source, Options(source), &error).size(), 20000u);
  EXPECT_NE(error.message().find("Could not convert string 'x20000'"), std::string::npos)
      << error.message();
}

TEST_F(TableReaderTest, TypesThatCannotBeReadAreNamed) {
  const std::string source = "sql:SELECT 1 AS a, {'x': 1} AS b, TIME '10:00:00' AS c, [[1]] AS d";
  EXPECT_EQ(Options(source).table->columns, Rows{"a"}) << "all that can be read";
  const auto error = [&](const char* column) {
    return FindTableColumns(kFetched, source, {"a", column}).status().message();
  };
  EXPECT_NE(
      error("b").find("column 'b': expected numbers, texts, dates or lists of them, found STRUCT"),
      std::string::npos)
      << error("b");
  EXPECT_NE(error("c").find("column 'c'"), std::string::npos);
  EXPECT_NE(error("c").find("found TIME"), std::string::npos);
  EXPECT_NE(error("d").find("found LIST of LIST of INTEGER"), std::string::npos) << error("d");
}

TEST_F(TableReaderTest, MissingColumnsAreNamed) {
  Run("COPY (SELECT 1 AS a, 2 AS b) TO '" + (folder_ / "1.parquet") + "'");
  Run("COPY (SELECT 1 AS a) TO '" + (folder_ / "2.parquet") + "'");
  const auto table = FindTableColumns(kFetched, folder_ / "1.parquet", {"a", "b", "c"});
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(CheckTableColumns(**table, {"a", "c"}).message(),
            "column 'c': expected one of the columns a, b");
  const auto reader =
      TableReader::Open(folder_ / "2.parquet", {.framing = Framing::kTable, .table = *table});
  ASSERT_FALSE(reader.ok());
  EXPECT_NE(reader.status().message().find("2.parquet: DuckDB: "), std::string::npos);
  EXPECT_NE(reader.status().message().find("\"b\""), std::string::npos)
      << reader.status().message();
}

class TableQueueTest : public DuckDbTest {
 protected:
  void SetUp() override {
    DuckDbTest::SetUp();
    if (!duckdb_) return;
    FeatureSpec spec = {
        .label = {.column = "y"}, .hash_bits = 20, .fields = {{.name = "a"}, {.name = "b"}}};
    for (FieldSpec& field : spec.fields) field.column = field.name;
    plan_ = *EncoderPlan::Make(spec);
  }
  void Write(const std::string& changed_row) {
    Run("COPY (SELECT i % 2 AS y, CASE WHEN i = " + changed_row +
        " THEN -1 ELSE i END AS a, 'b' || i AS b FROM range(3000) t(i)) TO '" +
        (folder_ / "x.parquet") + "'");
  }
  InputOptions Input() {
    InputOptions input = {.files = {folder_ / "x.parquet"}, .format = InputFormat::kTable};
    input.rows.duckdb = kFetched;
    input.shuffle_capacity = 500;
    input.min_after_dequeue = 250;
    input.block_bytes = 4096;
    const Status used = UseFeatures(plan_, input);
    EXPECT_TRUE(used.ok()) << used.message();
    return input;
  }
  // The keys of the rows that are left.
  std::vector<uint64_t> Drain(InputQueue& queue, Status* error = nullptr) {
    std::vector<uint64_t> keys;
    const CsrBatch* batch = nullptr;
    while (true) {
      const Result<bool> more = queue.Next(batch);
      if (error) *error = more.status();
      if (!more.ok() || !*more) return keys;
      for (const uint32_t column : batch->cols) keys.push_back(batch->keys[column]);
    }
  }

  std::shared_ptr<const EncoderPlan> plan_;
};

TEST_F(TableQueueTest, OrderDoesNotDependOnThreads) {
  Write("-1");
  InputOptions input = Input();
  input.threads = 1;
  const auto keys = Drain(**InputQueue::Open(input));
  EXPECT_EQ(keys.size(), 6000u);
  input.threads = 4;
  EXPECT_EQ(Drain(**InputQueue::Open(input)), keys);
  input.cache_bytes = 1 << 20;
  EXPECT_EQ(Drain(**InputQueue::Open(input)), keys);
}

TEST_F(TableQueueTest, EveryRowBelongsToOneShard) {
  Write("-1");
  InputOptions input = Input();
  input.num_shards = 3;
  std::multiset<uint64_t> all;
  for (input.shard = 0; input.shard < 3; ++input.shard) {
    const auto keys = Drain(**InputQueue::Open(input));
    EXPECT_EQ(keys.size(), 2000u);
    all.insert(keys.begin(), keys.end());
  }
  input.shard = 0;
  input.num_shards = 1;
  const auto keys = Drain(**InputQueue::Open(input));
  EXPECT_EQ(all, std::multiset<uint64_t>(keys.begin(), keys.end()));
}

TEST_F(TableQueueTest, ResumeContinuesAndFindsChangedRows) {
  Write("-1");
  InputOptions input = Input();
  const auto opened = InputQueue::Open(input);
  InputQueue* const queue = opened->get();
  const CsrBatch* batch = nullptr;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(*queue->Next(batch));
  input.start = queue->position();
  const auto rest = Drain(*queue);
  EXPECT_EQ(Drain(**InputQueue::Open(input)), rest);
  Status error;
  Write("500");  // before the position
  Drain(**InputQueue::Open(input), &error);
  EXPECT_NE(
      error.message().find("cannot resume at row 1000 of epoch 0: the data before it has changed"),
      std::string::npos)
      << error.message();
  Write("2999");  // behind it
  Drain(**InputQueue::Open(input), &error);
  EXPECT_TRUE(error.ok()) << error.message();
  Run("COPY (SELECT 1 AS y, i AS a, 'b' AS b FROM range(700) t(i)) TO '" + (folder_ / "x.parquet") +
      "'");
  Drain(**InputQueue::Open(input), &error);
  EXPECT_NE(error.message().find("the epoch has only 700 rows"), std::string::npos)
      << error.message();
}

TEST_F(TableQueueTest, BadRowIsNamedByItsNumber) {
  FeatureSpec spec = {.label = {.column = "y"},
                      .fields = {{.name = "a", .rule = FieldRule::kNumber, .column = "a"}}};
  plan_ = *EncoderPlan::Make(spec);
  Run("COPY (SELECT 1 AS y, CASE WHEN i = 20 THEN 'x' ELSE '1' END AS a FROM range(30) t(i)) TO '" +
      (folder_ / "x.parquet") + "'");
  Status error;
  Drain(**InputQueue::Open(Input()), &error);
  EXPECT_NE(
      error.message().find("x.parquet: row 21: column 'a': expected a finite number, found 'x'"),
      std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace millrace::io
