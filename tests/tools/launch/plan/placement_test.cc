// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/placement.h"

#include <gtest/gtest.h>

namespace millrace::launch {
namespace {

TEST(Placement, DeployModesHaveFixedShapes) {
  EXPECT_EQ(*ShapeOfDeployMode("single"), (JobShape{.num_ps = 0, .num_workers = 1}));
  EXPECT_EQ(*ShapeOfDeployMode("cluster"), (JobShape{.num_ps = 1, .num_workers = 2}));
  EXPECT_EQ(*ShapeOfDeployMode("cluster2"), (JobShape{.num_ps = 1, .num_workers = 3}));
  EXPECT_FALSE(ShapeOfDeployMode("cluster3").ok());
}

TEST(Placement, FirstServerSharesTheFirstHostWithTheChief) {
  const std::vector<PlacedProcess> placed = Place({.num_ps = 2, .num_workers = 3}, 2);
  ASSERT_EQ(placed.size(), 5u);
  const std::pair<std::string, size_t> expected[] = {
      {"ps 0", 0}, {"ps 1", 1}, {"worker 0", 0}, {"worker 1", 1}, {"worker 2", 0}};
  for (size_t i = 0; i < placed.size(); ++i) {
    EXPECT_EQ(NameOf(placed[i].id), expected[i].first);
    EXPECT_EQ(placed[i].host, expected[i].second);
  }
}

TEST(Placement, ImpossibleShapesAreRejected) {
  EXPECT_TRUE(CheckShape({.num_ps = 0, .num_workers = 1}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 0, .num_workers = 2}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 1, .num_workers = 0}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 1, .num_workers = SIZE_MAX}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = SIZE_MAX, .num_workers = 1}).ok());
}

TEST(Placement, FirstRanksAreServers) {
  const JobShape shape = {.num_ps = 2, .num_workers = 2};
  EXPECT_EQ(NameOf(ProcessOfRank(1, shape)), "ps 1");
  EXPECT_EQ(NameOf(ProcessOfRank(2, shape)), "worker 0");
  EXPECT_EQ(NameOf(ProcessOfRank(3, shape)), "worker 1");
}

TEST(Placement, OnlyTheExactListeningLineCounts) {
  EXPECT_EQ(ListeningPort("millrace-ps: shard 1 of 2 listening on 10.0.0.1:4711", 1, 2), 4711);
  EXPECT_EQ(ListeningPort("millrace-ps: shard 0 of 1 listening on [::1]:80", 0, 1), 80);
  for (const char* line : {"millrace-ps: shard 0 of 2 listening on 10.0.0.1:4711",
                           "millrace-ps: shard 1 of 3 listening on 10.0.0.1:4711",
                           " millrace-ps: shard 1 of 2 listening on 10.0.0.1:4711",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:0",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:65536",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:80 ",
                           "millrace-ps: shard 1 of 2 listening on 80",
                           "millrace-ps: shard 1 of 2 listening on :80", ""}) {
    EXPECT_FALSE(ListeningPort(line, 1, 2)) << line;
  }
}

TEST(Placement, Ipv6HostsGetBrackets) {
  EXPECT_EQ(JoinHostPort("node", 80), "node:80");
  EXPECT_EQ(JoinHostPort("::1", 0), "[::1]:0");
  EXPECT_TRUE(IsLoopback("127.0.1.1"));
  EXPECT_FALSE(IsLoopback("10.127.0.1"));
  EXPECT_EQ(HostOfDestination("me@node"), "node");
}

}  // namespace
}  // namespace millrace::launch
