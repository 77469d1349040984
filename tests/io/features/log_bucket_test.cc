// SPDX-License-Identifier: Apache-2.0
#include "io/features/log_bucket.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace millrace::io {
namespace {

TEST(LogBucketTest, GrowsByOneAndIsAtMostAPartOfItsStart) {
  for (const uint32_t parts : {1u, 2u, 4u, 8u, 64u}) {
    SCOPED_TRACE(parts);
    uint64_t start = 0;  // of the bucket
    for (uint64_t m = 1; m < 10000; ++m) {
      const uint32_t step = LogBucket(m, parts) - LogBucket(m - 1, parts);
      ASSERT_LE(step, 1u) << m;
      if (step == 1) start = m;
      ASSERT_LE(parts * (m - start), start) << m;
    }
    EXPECT_EQ(LogBucket(UINT64_MAX, parts), LogBuckets(parts) - 1);
  }
}

TEST(LogBucketTest, FourParts) {
  for (uint32_t m = 0; m < 8; ++m) EXPECT_EQ(LogBucket(m, 4), m);
  EXPECT_EQ(LogBucket(8, 4), 8u);
  EXPECT_EQ(LogBucket(9, 4), 8u);
  EXPECT_EQ(LogBucket(16, 4), 12u);
  EXPECT_EQ(LogBucket(19, 4), 12u);
  EXPECT_EQ(LogBucket(20, 4), 13u);
}

TEST(LogBucketTest, NegativeNumbersFollow) {
  EXPECT_EQ(SignedLogBucket(0, 4), 0u);
  EXPECT_EQ(SignedLogBucket(-0.5, 4), 0u);
  EXPECT_EQ(SignedLogBucket(7.9, 4), 7u);
  EXPECT_EQ(SignedLogBucket(-1, 4), LogBuckets(4));
  EXPECT_EQ(SignedLogBucket(-9, 4), LogBuckets(4) + 7);
  EXPECT_LT(SignedLogBucket(-1e300, 4), SignedLogBuckets(4));
  EXPECT_LT(SignedLogBucket(1e300, 4), LogBuckets(4));
}

}  // namespace
}  // namespace millrace::io
