// SPDX-License-Identifier: Apache-2.0
#include "ps/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace millrace::ps {
namespace {

TEST(Sharding, EveryKeyHasOnePositionAndRoundTrips) {
  for (size_t shards = 1; shards <= 16; ++shards) {
    const uint64_t num_features = 1003;
    const Sharding sharding(num_features, shards);
    std::set<std::pair<size_t, uint64_t>> places;
    for (uint64_t key = 0; key < num_features; ++key) {
      const Sharding::Place place = sharding.Of(key);
      ASSERT_LT(place.shard, shards);
      ASSERT_LT(place.local, sharding.local_features());
      ASSERT_EQ(sharding.KeyOf(place.shard, place.local), key);
      places.emplace(place.shard, place.local);
    }
    EXPECT_EQ(places.size(), num_features);
  }
}

TEST(Sharding, InterceptIsOnTheFirstShardUnderItsOwnKey) {
  for (const uint64_t num_features : {uint64_t{1003}, uint64_t{0}}) {
    for (size_t shards = 1; shards <= 16; ++shards) {
      const Sharding sharding(num_features, shards);
      const Sharding::Place place = sharding.Of(io::kInterceptKey);
      EXPECT_EQ(place.shard, 0u);
      EXPECT_EQ(place.local, io::kInterceptKey);
      EXPECT_EQ(sharding.KeyOf(place.shard, place.local), io::kInterceptKey);
    }
  }
}

// Strides are what features of a fixed layout have; a shard by remainder alone would get all of
// them.
TEST(Sharding, StridesDoNotFavourAShard) {
  for (const size_t shards : {2, 4, 8, 16}) {
    for (const uint64_t num_features : {uint64_t{1} << 30, uint64_t{0}}) {
      const Sharding sharding(num_features, shards);
      std::vector<double> counts(shards);
      for (uint64_t i = 0; i < 100000; ++i) ++counts[sharding.Of(i * 1024).shard];
      const double mean = 100000.0 / static_cast<double>(shards);
      EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1.1 * mean) << shards;
    }
  }
}

}  // namespace
}  // namespace millrace::ps
