// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/thread_team.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::convnets {
namespace {

TEST(ThreadTeam, EveryMemberWorksInEveryRound) {
  ThreadTeam team(3);
  std::vector<int> counts(3);
  for (int round = 0; round < 2000; ++round) {
    team.Run([&](size_t thread) { ++counts[thread]; });
  }
  EXPECT_EQ(counts, std::vector<int>(3, 2000));
  std::vector<int> hits(100'000);
  team.ParallelFor(hits.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ++hits[i];
  });
  EXPECT_EQ(hits, std::vector<int>(100'000, 1));
}

}  // namespace
}  // namespace millrace::convnets
