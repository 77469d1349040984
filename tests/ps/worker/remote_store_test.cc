// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/remote_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class RemoteStoreTest : public ServerTest {};

// With an evaluation and a checkpoint in between.
TEST_F(RemoteStoreTest, PrefetchingSavesExchangesAndKeepsTheModel) {
  const millrace::test::TemporaryFolder folder;
  std::vector<std::vector<float>> models;
  std::vector<uint64_t> exchanges;
  for (const bool prefetches : {false, true}) {
    options_.shard.checkpoints = folder / (prefetches ? "with" : "without");
    StartServer(1);
    auto worker = StartedWorker(Config(1));
    Random random(5);
    std::vector<uint64_t> keys(200), next(200), every(10000);
    std::iota(every.begin(), every.end(), 0);
    std::vector<float> weights(200), gradient(200), all(10000);
    for (uint64_t batch = 0; batch <= 60; ++batch) {
      keys.swap(next);
      uint64_t key = 0;
      for (uint64_t& k : next) k = key += 1 + random.Below(40);
      if (batch == 0) continue;
      if (prefetches) worker->store.Prefetch(batch + 1, next);
      ASSERT_TRUE(worker->store.PullBatch(batch, keys, weights).ok());
      for (size_t i = 0; i < 200; ++i)
        gradient[i] = weights[i] + 0.01f * static_cast<float>(i % 7 + 1);
      ASSERT_TRUE(worker->Push(keys, gradient, {.batch = batch, .rows = 10, .weight = 10}).ok());
      ASSERT_TRUE(batch % 20 != 7 || worker->Pull(every, all).ok());
      ASSERT_TRUE(batch % 20 != 13 || worker->Checkpoint(batch, "").ok());
    }
    ASSERT_TRUE(worker->Flush().ok());
    ASSERT_TRUE(worker->Pull(every, all).ok());
    models.push_back(all);
    EXPECT_EQ(worker->session->progress().step, 60u);
    exchanges.push_back(worker->wire(0).exchanges);
    EXPECT_EQ(worker->wire(0).repeats, 0u) << "no list had to be sent a second time";
    ASSERT_TRUE(worker->Finish().ok() && worker->Leave().ok());
  }
  EXPECT_EQ(models[0], models[1]);
  EXPECT_GT(exchanges[0], exchanges[1]) << "without prefetching a step takes two exchanges";
}

TEST_F(RemoteStoreTest, ReplacedPrefetchedBatchIsDropped) {
  StartServer(1);
  auto worker = StartedWorker(Config(1, 0));
  const std::vector<uint64_t> first = {1}, second = {2}, other = {3, 4};
  const std::vector<float> one(1, 1.0f), two(2, 1.0f);
  std::vector<float> weights(2);
  worker->store.Prefetch(2, second);
  ASSERT_TRUE(worker->store.PullBatch(1, first, std::span(weights).first(1)).ok());
  ASSERT_TRUE(worker->Push(first, one, {.batch = 1, .rows = 1, .weight = 1}).ok());
  // Batch 2 is in flight; batch 3 comes instead.
  ASSERT_TRUE(worker->store.PullBatch(3, other, weights).ok());
  ASSERT_TRUE(worker->Push(other, two, {.batch = 3, .rows = 1, .weight = 1}).ok());
  ASSERT_TRUE(worker->Flush().ok());
  ASSERT_TRUE(worker->Pull(other, weights).ok());
  EXPECT_EQ(weights, (std::vector<float>{-1, -1}));
}

TEST_F(RemoteStoreTest, PredictedBytesAreTheMeasuredOnes) {
  for (const bool packed : {false, true}) {
    StartServer(1);
    JobConfig config = Config(1);
    config.zstd = config.bf16 = packed;
    auto store = StartedWorker(config);
    Random random(1);
    std::vector<uint64_t> keys(500), next(500);
    std::vector<float> weights(500), gradient(500, 0.5f);
    for (uint64_t batch = 0; batch < 100; ++batch) {
      keys.swap(next);
      uint64_t key = 0;
      for (uint64_t& k : next) k = key += 1 + random.Below(180);
      if (batch == 0) continue;
      store->store.Prefetch(batch + 1, next);
      ASSERT_TRUE(store->store.PullBatch(batch, keys, weights).ok());
      ASSERT_TRUE(store->Push(keys, gradient, {.batch = batch, .rows = 100, .weight = 100}).ok());
    }
    ASSERT_TRUE(store->Flush().ok());
    const WireStats& wire = store->wire(0);
    EXPECT_NEAR(static_cast<double>(wire.sent), static_cast<double>(wire.predicted_sent),
                0.02 * static_cast<double>(wire.sent));
    EXPECT_NEAR(static_cast<double>(wire.received), static_cast<double>(wire.predicted_received),
                0.02 * static_cast<double>(wire.received));
  }
}

TEST_F(RemoteStoreTest, WaitingForTwoServersAtOnceIsCountedOnce) {
  JobConfig config = Config(2);
  config.num_shards = 2;
  options_.shard.num_shards = 2;
  options_.shard.shard = 1;
  StartServer(2);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  StartServer(2);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 2; ++w) {
    workers.emplace_back([w, job = Worker(config, w)] {
      ASSERT_TRUE(job->Start().ok());
      const std::vector<uint64_t> keys = {1, 2, 99999};
      std::vector<float> weights(3);
      ASSERT_TRUE(job->Pull(keys, weights).ok());
      if (w == 1) std::this_thread::sleep_for(milliseconds(250));
      ASSERT_TRUE(job->Push(keys, weights, {.rows = 1, .weight = 1}).ok() && job->Flush().ok());
      WireStats sum = job->wire(0);
      sum.Add(job->wire(1));
      EXPECT_LE(sum.barrier_ns + sum.server_ns, sum.wait_ns);
      EXPECT_TRUE(w == 1 || sum.barrier_ns > 0);
      ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
    });
  }
}

}  // namespace
}  // namespace millrace::ps
