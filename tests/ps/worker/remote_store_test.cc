// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/remote_store.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Of one worker, through servers and in this process. Batches are prefetched, so servers read
// factors of features that were never pushed.
TEST_F(RemoteStoreTest, FactorsOnServersAreThoseOfALocalStoreBitForBit) {
  constexpr size_t kWidth = 8, kKeys = 40;
  for (const uint64_t num_features : {uint64_t{3000}, uint64_t{0}}) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(std::to_string(num_features) + (normalize ? " normalized" : ""));
      JobConfig config = Config(1, num_features);
      config.update.rule = sparse::Rule::kAdaGrad;
      config.update.normalize = normalize;
      config.factors = {.kind = sparse::ModelKind::kFm, .factors = kWidth, .init = 0.1, .seed = 7};
      config.num_shards = options_.shard.num_shards = 2;
      options_.shard.shard = 1;
      StartServer(1);
      const std::unique_ptr<Server> second = std::move(server_);
      options_.shard.shard = 0;
      StartServer(1);
      thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
      auto worker = StartedWorker(config);
      EXPECT_EQ(worker->store.factor_width(), kWidth);
      auto local = sparse::LocalStore::Create(
          {.num_features = num_features, .intercept = true, .factors = config.factors},
          config.update);
      ASSERT_TRUE(local.ok());

      Random random(3);
      const size_t planes = normalize ? 2 : 1;
      std::vector<uint64_t> keys, next(kKeys + 1), every(3000);
      std::iota(every.begin(), every.end(), 0);
      std::vector<float> mine(planes * (kKeys + 1) + kWidth * kKeys), theirs(mine.size());
      for (uint64_t batch = 0; batch <= 30; ++batch) {
        keys = next;
        for (size_t i = 0; i < kKeys; ++i) next[i] = 70 * i + random.Below(70);
        next.back() = io::kInterceptKey;
        if (batch == 0) continue;
        worker->store.Prefetch(batch + 1, next);
        ASSERT_TRUE(worker->store.PullBatch(batch, keys, theirs).ok());
        ASSERT_TRUE((*local)->PullBatch(batch, keys, mine).ok());
        ASSERT_EQ(mine, theirs);
        std::vector<float> gradient;
        for (size_t i = 0; i < mine.size(); ++i) {
          gradient.push_back(static_cast<float>(random.Uniform()) - 0.5f);
          // The largest |value| of each key.
          if (i > kKeys && i < planes * (kKeys + 1)) gradient.back() = 1;
        }
        const sparse::PushInfo info = {.batch = batch, .rows = 1, .weight = 1};
        ASSERT_TRUE(worker->Push(keys, gradient, info).ok());
        ASSERT_TRUE((*local)->Push(keys, gradient, info).ok());
      }
      ASSERT_TRUE(worker->Flush().ok());
      std::vector<float> weights(every.size()), factors(every.size() * kWidth);
      std::vector<float> local_weights(weights.size()), local_factors(factors.size());
      ASSERT_TRUE(worker->Pull(every, weights).ok());
      ASSERT_TRUE(worker->store.PullFactors(every, factors).ok());
      ASSERT_TRUE((*local)->Pull(every, local_weights).ok());
      ASSERT_TRUE((*local)->PullFactors(every, local_factors).ok());
      EXPECT_EQ(weights, local_weights);
      EXPECT_EQ(factors, local_factors);
      size_t trained = 0;
      const Status read =
          worker->session->ReadModel([&](uint64_t key, float weight, std::span<const float> block) {
            if (key == io::kInterceptKey) return;
            ++trained;
            EXPECT_EQ(weight, weights[key]);
            const auto of_key = std::span(factors).subspan(key * kWidth, kWidth);
            EXPECT_TRUE(std::equal(block.begin(), block.end(), of_key.begin(), of_key.end()));
          });
      ASSERT_TRUE(read.ok()) << read.message();
      EXPECT_GT(trained, 500u);
      ASSERT_TRUE(worker->Finish().ok() && worker->Leave().ok());
    }
  }
}

TEST_F(RemoteStoreTest, WeightsThatAreLoadedHaveTheirFactors) {
  StartServer(1);
  JobConfig config = Config(1, 1000);
  config.factors = {.kind = sparse::ModelKind::kFm, .factors = 4, .init = 0.1};
  auto worker = Worker(config, 0);
  const std::vector<uint64_t> keys = {5, 9, io::kInterceptKey};
  const std::vector<float> weights = {1, 2, 3}, factors = {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_TRUE(worker->session->LoadWeights(keys, weights, factors).ok());
  ASSERT_TRUE(worker->Start().ok());
  std::vector<float> pulled(3 + 2 * 4), found(2 * 4), initial(4);
  ASSERT_TRUE(worker->store.PullBatch(1, keys, pulled).ok());
  ASSERT_TRUE(worker->store.PullFactors(std::span(keys).first(2), found).ok());
  InitialFactors(config.factors, 9, initial);
  EXPECT_EQ(std::vector<float>(pulled.begin(), pulled.begin() + 7),
            (std::vector<float>{1, 2, 3, 1, 2, 3, 4}));
  EXPECT_EQ(std::vector<float>(pulled.begin() + 7, pulled.end()), initial)
      << "a feature without factors starts with initial ones";
  EXPECT_EQ(found, (std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0}));
}

// The server must not take memory for numbers that no message can have.
TEST_F(RemoteStoreTest, ABatchWhoseNumbersFitIntoNoMessageIsAClearError) {
  StartServer(1);
  JobConfig config = Config(1, 0);
  config.factors = {
      .kind = sparse::ModelKind::kFfm, .factors = 64, .fields = 64, .init = 0.1, .seed = 1};
  auto worker = StartedWorker(config);
  std::vector<uint64_t> keys(13000);
  std::iota(keys.begin(), keys.end(), 1);
  std::vector<float> numbers(1);
  EXPECT_EQ(worker->store.PullBatch(1, keys, numbers).message(),
            "a batch has 13000 features on one server, of 4097 numbers each: expected at most "
            "50331648 numbers; smaller batches or more servers have fewer");
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
