// SPDX-License-Identifier: Apache-2.0
#include "tools/python/csr_rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "io/base/random.h"

namespace millrace::python {
namespace {

using io::CsrBatch;

template <typename Index>
struct Matrix {
  std::vector<Index> row_begin = {0};
  std::vector<Index> columns;
  std::vector<double> values;
  std::vector<uint8_t> labels;
  std::vector<double> weights;
  uint64_t num_columns = 100;

  void AddRow(const std::vector<std::pair<Index, double>>& entries) {
    for (const auto& [column, value] : entries) {
      columns.push_back(column);
      values.push_back(value);
    }
    row_begin.push_back(static_cast<Index>(columns.size()));
    labels.push_back(labels.size() % 2);
  }
  CsrRows View() const {
    return {.index = CsrIndex<Index>{row_begin, columns},
            .values = std::span<const double>(values),
            .num_columns = num_columns,
            .labels = labels,
            .weights = weights};
  }
};

Matrix<int32_t> ThreeRows() {
  Matrix<int32_t> m;
  m.AddRow({{7, 1}, {3, 1}});
  m.AddRow({});
  m.AddRow({{3, 2.5}});
  return m;
}

template <typename T>
std::vector<T> List(const PodVector<T>& v) {
  return {v.begin(), v.end()};
}

TEST(BatchCutter, CopiesRowsInTheirOrder) {
  const auto m = ThreeRows();
  const CsrRows rows = m.View();
  BatchCutter cutter(rows, BatchForm::kIndices);
  CsrBatch batch;
  ASSERT_TRUE(cutter.Cut(0, 3, {}, batch).ok());
  EXPECT_EQ(List(batch.row_begin), (std::vector<uint32_t>{0, 2, 2, 3}));
  EXPECT_EQ(List(batch.cols), (std::vector<uint32_t>{7, 3, 3}));
  EXPECT_EQ(List(batch.values), (std::vector<float>{1, 1, 2.5}));
  EXPECT_EQ(List(batch.labels), (std::vector<float>{0, 1, 0}));
  EXPECT_TRUE(batch.weights.empty());
  const std::vector<uint32_t> order = {2, 0, 1};
  ASSERT_TRUE(cutter.Cut(0, 2, order, batch).ok());
  EXPECT_EQ(List(batch.cols), (std::vector<uint32_t>{3, 7, 3}));
  EXPECT_EQ(List(batch.values), (std::vector<float>{2.5, 1, 1}));
}

TEST(BatchCutter, ABatchOfOnesHasNoValues) {
  const auto m = ThreeRows();
  const CsrRows rows = m.View();
  BatchCutter cutter(rows, BatchForm::kIndices);
  CsrBatch batch;
  ASSERT_TRUE(cutter.Cut(0, 2, {}, batch).ok());
  EXPECT_TRUE(batch.values.empty());
  const std::vector<uint32_t> order = {0, 2};
  ASSERT_TRUE(cutter.Cut(0, 2, order, batch).ok());
  EXPECT_EQ(List(batch.values), (std::vector<float>{1, 1, 2.5}));
}

TEST(BatchCutter, WeightsBeginWithTheFirstOtherThanOne) {
  auto m = ThreeRows();
  m.weights = {1, 1, 0.5};
  const CsrRows rows = m.View();
  BatchCutter cutter(rows, BatchForm::kIndices);
  CsrBatch batch;
  ASSERT_TRUE(cutter.Cut(0, 2, {}, batch).ok());
  EXPECT_TRUE(batch.weights.empty());
  const std::vector<uint32_t> order = {0, 2, 1};
  ASSERT_TRUE(cutter.Cut(0, 3, order, batch).ok());
  EXPECT_EQ(List(batch.weights), (std::vector<float>{1, 0.5, 1}));
}

TEST(BatchCutter, CompactsColumnsOfAnySize) {
  Matrix<int64_t> m;
  m.num_columns = uint64_t{1} << 62;
  m.AddRow({{int64_t{1} << 61, 1}, {5, 1}});
  m.AddRow({{5, 1}});
  const CsrRows rows = m.View();
  CsrBatch batch;
  BatchCutter cutter(rows, BatchForm::kCompactHashed);
  ASSERT_TRUE(cutter.Cut(0, 2, {}, batch).ok());
  EXPECT_TRUE(batch.compacted);
  EXPECT_EQ(List(batch.keys), (std::vector<uint64_t>{5, uint64_t{1} << 61}));
  EXPECT_EQ(List(batch.cols), (std::vector<uint32_t>{1, 0, 0}));
}

TEST(BatchCutter, BadArraysAreErrors) {
  CsrBatch batch;
  const auto error_of = [&](const Matrix<int32_t>& m, BatchForm form) {
    const CsrRows rows = m.View();
    return BatchCutter(rows, form).Cut(0, rows.rows(), {}, batch).message();
  };
  for (const BatchForm form :
       {BatchForm::kIndices, BatchForm::kCompact, BatchForm::kCompactHashed}) {
    auto large = ThreeRows();
    large.columns[1] = 100;
    EXPECT_EQ(error_of(large, form), "rows 0 to 2: column: expected 0 to below 100, found 100");
    auto negative = ThreeRows();
    negative.columns[1] = -1;
    EXPECT_EQ(error_of(negative, form), "rows 0 to 2: column: expected 0 to below 100, found -1");
    auto descending = ThreeRows();
    descending.row_begin[2] = 1;
    EXPECT_EQ(error_of(descending, form), "row 1: indptr: expected 2 to 3, found 1");
    auto beyond = ThreeRows();
    beyond.row_begin[3] = 4;
    EXPECT_EQ(error_of(beyond, form), "row 2: indptr: expected 2 to 3, found 4");
    auto below = ThreeRows();
    below.row_begin[0] = -1;
    EXPECT_FALSE(error_of(below, form).empty());
    for (const double bad : {1e300, std::numeric_limits<double>::quiet_NaN()}) {
      auto not_finite = ThreeRows();
      not_finite.values[2] = bad;
      EXPECT_NE(error_of(not_finite, form).find("value: expected a number in the range"),
                std::string::npos);
    }
  }
}

TEST(CsrRows, SizesBelongTogether) {
  auto m = ThreeRows();
  EXPECT_TRUE(m.View().Validate().ok());
  m.labels.pop_back();
  EXPECT_EQ(m.View().Validate().message(), "labels: expected 3 entries, found 2");
  m = ThreeRows();
  m.weights = {1};
  EXPECT_EQ(m.View().Validate().message(), "weights: expected 3 entries, found 1");
  m = ThreeRows();
  m.values.pop_back();
  EXPECT_EQ(m.View().Validate().message(), "indices: expected 2 entries, found 3");
  m = ThreeRows();
  m.row_begin.clear();
  EXPECT_FALSE(m.View().Validate().ok());
}

TEST(BatchCutter, AnyCutHasTheRowsOfTheMatrix) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Matrix<int64_t> m;
    for (uint64_t r = random.Below(30); r > 0; --r) {
      std::vector<std::pair<int64_t, double>> row;
      for (uint64_t i = random.Below(5); i > 0; --i) {
        row.emplace_back(static_cast<int64_t>(random.Below(100)),
                         random.Below(2) == 0 ? 1.0 : random.Uniform());
      }
      m.AddRow(row);
    }
    const CsrRows rows = m.View();
    BatchCutter cutter(rows, BatchForm::kCompact);
    CsrBatch batch;
    size_t entry = 0;
    for (size_t first = 0; first < rows.rows();) {
      const size_t count = std::min<size_t>(1 + random.Below(7), rows.rows() - first);
      ASSERT_TRUE(cutter.Cut(first, count, {}, batch).ok());
      ASSERT_EQ(batch.rows(), count);
      for (size_t i = 0; i < batch.nnz(); ++i, ++entry) {
        EXPECT_EQ(batch.keys[batch.cols[i]], static_cast<uint64_t>(m.columns[entry]));
        EXPECT_EQ(batch.values.empty() ? 1.0f : batch.values[i],
                  static_cast<float>(m.values[entry]));
      }
      first += count;
    }
    EXPECT_EQ(entry, m.columns.size());
  }
}

}  // namespace
}  // namespace millrace::python
