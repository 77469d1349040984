// SPDX-License-Identifier: Apache-2.0
// For tests that need libduckdb.so: they are skipped where it is not found.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "io/table/table_reader.h"
#include "io/table/table_row.h"
#include "tests/support/test_files.h"

namespace millrace::io {

class DuckDbTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = LoadDuckDb(kFetched);
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().message();
    duckdb_ = *loaded;
  }

  // Runs statements without a result.
  void Run(const std::string& sql) {
    const auto query = TableQuery::Open(duckdb_, "sql:" + sql + "; SELECT 1", {});
    ASSERT_TRUE(query.ok()) << query.status().message();
  }

  BlockOptions Options(const std::string& source, size_t block_bytes = 256 << 10) {
    const auto table = FindTableColumns(kFetched, source, {});
    EXPECT_TRUE(table.ok()) << table.status().message();
    BlockOptions options = {.framing = Framing::kTable, .block_bytes = block_bytes};
    if (table.ok()) options.table = *table;
    return options;
  }

  static constexpr char kFetched[] = MILLRACE_SOURCE_DIR "/data/duckdb/libduckdb.so";
  std::shared_ptr<const DuckDbApi> duckdb_;
  test::TemporaryFolder folder_;
};

}  // namespace millrace::io
