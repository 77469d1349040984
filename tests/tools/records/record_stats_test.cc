// SPDX-License-Identifier: Apache-2.0
#include "tools/records/record_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tools/records/stats_report.h"

namespace millrace::records {
namespace {

std::string SparseExample(int64_t label, std::vector<uint64_t> keys, std::vector<float> values) {
  std::string record;
  io::EncodeSparseExample({}, label, keys, values, record);
  return record;
}

TEST(RecordStats, PartsMergeToTheWhole) {
  RecordStats whole(io::FeatureNames{}), left(io::FeatureNames{}), right(io::FeatureNames{});
  for (uint64_t i = 0; i < 100; ++i) {
    const std::string record =
        i % 10 == 9 ? "text" : SparseExample(i % 4 == 0, {i, i * i}, {1, static_cast<float>(i)});
    whole.Add(record);
    (i < 37 ? left : right).Add(record);
  }
  left.Merge(right);
  EXPECT_EQ(StatsJson({}, left), StatsJson({}, whole));
  EXPECT_EQ(StatsText({}, left), StatsText({}, whole));
  EXPECT_EQ(whole.others(), 10u);
  EXPECT_EQ(whole.values().max, 98);
}

TEST(RecordStats, UnusualRecordsAreCounted) {
  RecordStats stats(io::FeatureNames{});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  stats.Add(SparseExample(1, {5, ~uint64_t{0}}, {nan, 2, 3}));
  stats.Add("");
  EXPECT_EQ(stats.keys().keys.max, ~uint64_t{0});
  EXPECT_EQ(stats.keys().none, 1u);
  EXPECT_EQ(stats.labels().none, 1u);
  EXPECT_EQ(stats.values().not_finite, 1u);
  EXPECT_EQ(stats.values().mismatched, 1u);
  EXPECT_EQ(stats.values().min, 2);
  EXPECT_EQ(stats.values().max, 3);
}

TEST(RecordStats, ManyLabelValuesStayBounded) {
  RecordStats stats(io::FeatureNames{});
  for (int64_t label = 0; label < 1500; ++label) stats.Add(SparseExample(label, {1}, {}));
  EXPECT_EQ(stats.labels().counts.size(), LabelStats::kMaxValues);
  EXPECT_EQ(stats.labels().more, 500u);
}

TEST(RecordStats, BucketsArePowersOfTwo) {
  EXPECT_EQ(BucketText(0), "0");
  EXPECT_EQ(BucketText(1), "1");
  EXPECT_EQ(BucketText(2), "2-3");
  EXPECT_EQ(BucketText(6), "32-63");
  EXPECT_EQ(BucketText(64), "9223372036854775808-18446744073709551615");
}

}  // namespace
}  // namespace millrace::records
