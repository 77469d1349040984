// SPDX-License-Identifier: Apache-2.0
// Whole jobs on a real server: messages, connections and ports.
#include "ps/server/server.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/server_fixture.h"

namespace millrace::ps {
namespace {

TEST_F(ServerTest, ServerEndsAfterItsWorkersHaveTrained) {
  StartServer(3);
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 3; ++w) {
    auto worker = Worker(Config(3), w);
    ASSERT_TRUE(worker);
    workers.emplace_back([w, worker = std::move(worker)] {
      ASSERT_TRUE(worker->Start().ok());
      const std::vector<uint64_t> keys = {w, 10};
      std::vector<float> weights(2);
      for (uint64_t batch = 1; batch <= 50; ++batch) {
        if (batch < 50) worker->store.Prefetch(batch + 1, keys);
        ASSERT_TRUE(worker->store.PullBatch(batch, keys, weights).ok());
        EXPECT_EQ(weights[1], -static_cast<float>(batch - 1));
        ASSERT_TRUE(
            worker->Push(keys, std::vector<float>{3, 1}, {.batch = batch, .rows = 1, .weight = 1})
                .ok());
      }
      ASSERT_TRUE(worker->Finish().ok());
      ASSERT_TRUE(worker->session->WaitAllFinished().ok());
      ASSERT_TRUE(worker->Pull(keys, weights).ok());
      EXPECT_EQ(weights[0], -50);
      ASSERT_TRUE(worker->Leave().ok());
    });
  }
  EXPECT_TRUE(server_->Wait([] { return false; }).ok());
  EXPECT_EQ(server_->summary().steps, 50u);
}

// Apache Thrift 0.17 counts all input of a connection against the limit of one message, 100 MB.
TEST_F(ServerTest, ConnectionsTransferMoreThanAHundredMegabytes) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::vector<uint64_t> keys(100000);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> weights(keys.size()), gradient(keys.size(), 1.0f);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(store->Pull(keys, weights).ok());
    ASSERT_TRUE(store->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_GT(server_->summary().bytes_in, 105u << 20);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

// Thrift's framed transport refuses messages of more than 16 MB. The long timeout is for sanitizers
// on busy machines.
TEST_F(ServerTest, MessagesMayBeLargerThanSixteenMegabytes) {
  StartServer(1);
  thrift_.call_ms = 60000;
  const JobConfig config = Config(1, 5000000);
  auto store = StartedWorker(config);
  std::vector<uint64_t> keys(5000000);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> gradient(keys.size(), 1.0f);
  ASSERT_TRUE(store->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
  ASSERT_TRUE(store->Flush().ok());
  std::vector<float> weights(keys.size());
  ASSERT_TRUE(store->Pull(keys, weights).ok());
  EXPECT_EQ(weights.back(), -1);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, IdleWorkerStaysConnected) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::this_thread::sleep_for(milliseconds(2 * options_.authenticate_ms));
  ExpectServes(*store);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, PortInUseIsAnError) {
  StartServer(1);
  ServerOptions twin = options_;
  twin.port = server_->port();
  const auto server = Server::Start(twin);
  EXPECT_NE(server.status().message().find("cannot listen on 127.0.0.1:"), std::string::npos);
}

TEST_F(ServerTest, LostWorkerEndsTheJobAndIsNamed) {
  options_.shard.rejoin_ns = 300000000;
  StartServer(2);
  auto first = Worker(Config(2), 0);
  auto second = Worker(Config(2), 1);
  ASSERT_TRUE(first && second);
  std::jthread waiting([&] { ASSERT_TRUE(second->Start().ok()); });
  ASSERT_TRUE(first->Start().ok());
  waiting.join();
  const std::jthread tick([&] { EXPECT_FALSE(server_->Wait([] { return false; }).ok()); });
  second.reset();
  transports_.pop_back();
  const std::vector<uint64_t> keys = {1};
  Status status = first->Push(keys, std::vector<float>{1}, {.rows = 1, .weight = 1});
  if (status.ok()) status = first->Flush();
  EXPECT_EQ(status.code(), Code::kFailed);
  EXPECT_NE(status.message().find("worker 1"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace millrace::ps
