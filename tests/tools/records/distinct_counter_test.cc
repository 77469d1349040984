// SPDX-License-Identifier: Apache-2.0
#include "tools/records/distinct_counter.h"

#include <gtest/gtest.h>

namespace millrace::records {
namespace {

TEST(DistinctCounter, IsWithinThreePercentAtAnySize) {
  DistinctCounter counter;
  uint64_t added = 0;
  for (uint64_t size = 1; size <= 3'000'000; size = size * 3 / 2 + 1) {
    for (; added < size; ++added) {
      counter.Add(added);
      counter.Add(added / 2);  // seen before
    }
    const auto estimate = static_cast<double>(counter.Estimate());
    EXPECT_NEAR(estimate, static_cast<double>(size), 0.03 * static_cast<double>(size) + 0.5);
  }
}

TEST(DistinctCounter, MergedCountersCountTheUnion) {
  DistinctCounter a, b, both;
  for (uint64_t key = 0; key < 100'000; ++key) {
    (key % 3 == 0 ? a : b).Add(key);
    if (key % 5 == 0) a.Add(key), b.Add(key);
    both.Add(key);
  }
  a.Merge(b);
  EXPECT_EQ(a.Estimate(), both.Estimate());
}

}  // namespace
}  // namespace millrace::records
