// SPDX-License-Identifier: Apache-2.0
#include "io/rows/centered_rows.h"

#include <gtest/gtest.h>

#include <map>

namespace millrace::io {
namespace {

// key -> value of each row
std::vector<std::map<uint64_t, float>> Rows(const BatchBuilder& rows) {
  std::vector<std::map<uint64_t, float>> maps;
  for (size_t r = 0; r < rows.batch.rows(); ++r) {
    maps.emplace_back();
    for (uint32_t i = rows.batch.row_begin[r]; i < rows.batch.row_begin[r + 1]; ++i) {
      maps.back()[rows.wide ? rows.wide_keys[i] : rows.batch.cols[i]] += rows.batch.values[i];
    }
  }
  return maps;
}

TEST(CenteredRows, SubtractsTheCenterAlsoWhereAValueIsMissing) {
  for (const bool wide : {false, true}) {
    const auto decoder = MakeRowDecoder(
        InputFormat::kLibsvm, {.num_features = wide ? 0u : 10u, .centers = {{2, 5}, {7, -1}}});
    BatchBuilder rows;
    rows.Clear(wide);
    ASSERT_TRUE(decoder->Append("1 1:1 3:1", rows).ok()) << "ones";
    ASSERT_TRUE(decoder->Append("# nothing", rows).ok());
    ASSERT_TRUE(decoder->Append("0 2:6.5 7:3", rows).ok());
    ASSERT_TRUE(decoder->Append("1 7:-1", rows).ok());
    ASSERT_TRUE(decoder->Append("1", rows).ok());
    using Row = std::map<uint64_t, float>;
    EXPECT_EQ(Rows(rows), (std::vector<Row>{{{1, 1}, {2, -5}, {3, 1}, {7, 1}},
                                            {{2, 1.5f}, {7, 4}},
                                            {{2, -5}, {7, 0}},
                                            {{2, -5}, {7, 1}}}));
    EXPECT_EQ(rows.batch.values.size(), rows.nnz());
    rows.Trim();
    EXPECT_EQ(wide ? rows.wide_keys.size() : rows.batch.cols.size(), rows.nnz());
  }
}

TEST(CenteredRows, RowThatIsRefusedChangesNothing) {
  const auto decoder =
      MakeRowDecoder(InputFormat::kLibsvm, {.num_features = 10, .centers = {{2, 5}}});
  BatchBuilder rows;
  rows.Clear(false);
  EXPECT_FALSE(decoder->Append("1 11:1", rows).ok());
  EXPECT_EQ(rows.batch.rows(), 0u);
  EXPECT_EQ(rows.nnz(), 0u);
}

}  // namespace
}  // namespace millrace::io
