// SPDX-License-Identifier: Apache-2.0
// How evenly the servers of a job share the synthetic data, from 1 to 16 of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "ps/sharding.h"
#include "tools/synth/synth_model.h"

namespace millrace::synth {
namespace {

double LargestToMean(const std::vector<double>& counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  return *std::max_element(counts.begin(), counts.end()) * static_cast<double>(counts.size()) / sum;
}

TEST(SynthSharding, NoShardHasMoreThanATenthMoreKeysOrTrafficThanTheMean) {
  const SynthOptions options;
  const SynthModel model(options);
  std::unordered_set<uint64_t> all;
  std::vector<uint64_t> traffic;  // the unique keys of each batch, one batch after the other
  SynthRow row;
  for (uint64_t batch = 0; batch < 200; ++batch) {
    std::unordered_set<uint64_t> keys;
    for (uint64_t r = 0; r < 100; ++r) {
      model.Draw(Part::kTrain, batch * 100 + r, row);
      keys.insert(row.keys.begin(), row.keys.end());
    }
    all.insert(keys.begin(), keys.end());
    traffic.insert(traffic.end(), keys.begin(), keys.end());
  }
  for (size_t shards = 1; shards <= 16; ++shards) {
    SCOPED_TRACE(shards);
    const ps::Sharding sharding(options.num_features, shards);
    std::vector<double> keys(shards), messages(shards);
    for (const uint64_t key : all) ++keys[sharding.Of(key).shard];
    for (const uint64_t key : traffic) ++messages[sharding.Of(key).shard];
    EXPECT_LT(LargestToMean(keys), 1.1);
    EXPECT_LT(LargestToMean(messages), 1.1);
  }
}

}  // namespace
}  // namespace millrace::synth
