// Real servers, real sockets: jobs, messages and ports.
#include "ps/server/server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "tests/ps/server/server_fixture.h"

namespace millrace::ps {
namespace {

TEST_F(ServerTest, WorkersTrainTogetherAndTheServerEndsWithThem) {
  StartServer(3);
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 3; ++w) {
    auto store = Worker(Config(3), w);
    ASSERT_TRUE(store);
    workers.emplace_back([w, store = std::move(store)] {
      ASSERT_TRUE(store->Start().ok());
      const std::vector<uint64_t> even = {w, 10}, odd = even;
      for (int step = 0; step < 50; ++step) {
        const std::vector<uint64_t>& keys = step % 2 == 0 ? even : odd;
        std::vector<float> weights(2);
        if (step < 49) store->Announce(step % 2 == 0 ? odd : even);
        ASSERT_TRUE(store->Pull(keys, weights).ok());
        EXPECT_EQ(weights[1], static_cast<float>(-step));
        store->Describe({.rows = 1, .weight = 1});
        ASSERT_TRUE(store->Push(keys, std::vector<float>{3, 1}).ok());
      }
      ASSERT_TRUE(store->Finish().ok());
      ASSERT_TRUE(store->WaitDrained().ok());
      std::vector<float> weights(2);
      ASSERT_TRUE(store->Pull(even, weights).ok());
      EXPECT_EQ(weights[0], -50);
      ASSERT_TRUE(store->Leave().ok());
    });
  }
  EXPECT_TRUE(server_->Wait([] { return false; }).ok());
  EXPECT_EQ(server_->summary().steps, 50u);
}

// Apache Thrift 0.17 adds up all input of a connection against one message's limit of 100 MB.
TEST_F(ServerTest, AConnectionLivesBeyondAHundredMegabytes) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::vector<uint64_t> keys(100000);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> weights(keys.size()), gradient(keys.size(), 1.0f);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(store->Pull(keys, weights).ok());
    store->Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(store->Push(keys, gradient).ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_GT(server_->summary().bytes_in, 105u << 20);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

// And its framed transport refuses more than 16 MB at once. Not a test of speed: a sanitizer on a
// busy machine may take long.
TEST_F(ServerTest, MessagesMayBeLargerThanSixteenMegabytes) {
  StartServer(1);
  thrift_.call_ms = 60000;
  const JobConfig config = Config(1, 5000000);
  auto store = StartedWorker(config);
  std::vector<uint64_t> keys(5000000);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> gradient(keys.size(), 1.0f);
  store->Describe({.rows = 1, .weight = 1});
  ASSERT_TRUE(store->Push(keys, gradient).ok());
  ASSERT_TRUE(store->Flush().ok());
  std::vector<float> weights(keys.size());
  ASSERT_TRUE(store->Pull(keys, weights).ok());
  EXPECT_EQ(weights.back(), -1);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, AnIdleWorkerIsNotCutOff) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::this_thread::sleep_for(milliseconds(2 * options_.stranger_ms));
  ExpectServes(*store);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, WaitingForTwoServersAtOnceIsCountedOnce) {
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
      job->Describe({.rows = 1, .weight = 1});
      ASSERT_TRUE(job->Push(keys, weights).ok() && job->Flush().ok());
      WireStats sum = job->wire(0);
      sum.Add(job->wire(1));
      EXPECT_LE(sum.barrier_ns + sum.server_ns, sum.wait_ns);
      EXPECT_TRUE(w == 1 || sum.barrier_ns > 0);
      ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
    });
  }
}

TEST_F(ServerTest, APortInUseIsAClearError) {
  StartServer(1);
  ServerOptions twin = options_;
  twin.port = server_->port();
  const auto server = Server::Start(twin);
  EXPECT_NE(server.status().message().find("cannot listen on 127.0.0.1:"), std::string::npos);
}

TEST_F(ServerTest, PredictedBytesAreTheMeasuredOnes) {
  for (const bool packed : {false, true}) {
    StartServer(1);
    JobConfig config = Config(1);
    config.zstd = config.bf16 = packed;
    auto store = StartedWorker(config);
    io::Random random(1);
    std::vector<uint64_t> keys(500), next(500);
    std::vector<float> weights(500), gradient(500, 0.5f);
    for (int step = 0; step < 100; ++step) {
      keys.swap(next);
      uint64_t key = 0;
      for (uint64_t& k : next) k = key += 1 + random.Below(180);
      store->Announce(next);
      if (step == 0) continue;
      ASSERT_TRUE(store->Pull(keys, weights).ok());
      store->Describe({.rows = 100, .weight = 100});
      ASSERT_TRUE(store->Push(keys, gradient).ok());
    }
    ASSERT_TRUE(store->Flush().ok());
    const WireStats& wire = store->wire(0);
    EXPECT_NEAR(static_cast<double>(wire.sent), static_cast<double>(wire.predicted_sent),
                0.02 * static_cast<double>(wire.sent));
    EXPECT_NEAR(static_cast<double>(wire.received), static_cast<double>(wire.predicted_received),
                0.02 * static_cast<double>(wire.received));
  }
}

}  // namespace
}  // namespace millrace::ps
