// SPDX-License-Identifier: Apache-2.0
#include "io/batch/key_compactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "io/base/random.h"

namespace millrace::io {
namespace {

struct Naive {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> cols;
};

Naive NaiveCompact(const std::vector<uint64_t>& in) {
  Naive naive;
  naive.keys = in;
  std::sort(naive.keys.begin(), naive.keys.end());
  naive.keys.erase(std::unique(naive.keys.begin(), naive.keys.end()), naive.keys.end());
  for (const uint64_t key : in) {
    const auto at = std::lower_bound(naive.keys.begin(), naive.keys.end(), key);
    naive.cols.push_back(static_cast<uint32_t>(at - naive.keys.begin()));
  }
  return naive;
}

// Skewed, like features: many repeats of few keys, single ones of many.
std::vector<uint64_t> RandomKeys(Random& random, uint64_t below) {
  std::vector<uint64_t> keys(random.Below(3000));
  const uint64_t popular = 1 + random.Below(20);
  for (uint64_t& key : keys) {
    key = random.Below(2) == 0 ? random.Below(popular) * 7919 : random.Next();
    if (below > 0) key %= below;
  }
  return keys;
}

void ExpectNarrowEqualsNaive(KeyCompactor& compactor, const std::vector<uint64_t>& in) {
  const Naive naive = NaiveCompact(in);
  std::vector<uint32_t> cols(in.begin(), in.end());
  PodVector<uint64_t> keys;
  compactor.Compact(cols, keys);
  ASSERT_EQ(cols, naive.cols);
  ASSERT_TRUE(std::equal(keys.begin(), keys.end(), naive.keys.begin(), naive.keys.end()));
}

TEST(KeyCompactor, BitmapEqualsNaive) {
  for (const CpuLevel level : {CpuLevel::kPlain, DetectCpuLevel()}) {
    for (const uint64_t features :
         {uint64_t{1}, uint64_t{63}, uint64_t{64}, uint64_t{65}, uint64_t{5000}, uint64_t{33762578},
          KeyCompactor::kMaxBitmapFeatures}) {
      KeyCompactor compactor(features, level);
      for (uint64_t seed = 0; seed < 30; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        ExpectNarrowEqualsNaive(compactor, RandomKeys(random, features));
      }
    }
  }
}

TEST(KeyCompactor, HashOfNarrowKeysEqualsNaive) {
  KeyCompactor compactor(uint64_t{1} << 32);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ExpectNarrowEqualsNaive(compactor, RandomKeys(random, uint64_t{1} << 32));
  }
}

TEST(KeyCompactor, HashOfWideKeysEqualsNaive) {
  KeyCompactor compactor(0);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<uint64_t> in = RandomKeys(random, 0);
    if (seed % 3 == 0) in.insert(in.end(), {0, ~uint64_t{0}, 0});
    const Naive naive = NaiveCompact(in);
    PodVector<uint32_t> cols;
    PodVector<uint64_t> keys;
    compactor.Compact(in, cols, keys);
    ASSERT_TRUE(std::equal(cols.begin(), cols.end(), naive.cols.begin(), naive.cols.end()));
    ASSERT_TRUE(std::equal(keys.begin(), keys.end(), naive.keys.begin(), naive.keys.end()));
  }
}

}  // namespace
}  // namespace millrace::io
