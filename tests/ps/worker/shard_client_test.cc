// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/shard_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/server_fixture.h"

namespace millrace::ps {
namespace {

class ShardClientTest : public ServerTest {};

TEST_F(ShardClientTest, LostServerIsNamedBeforeTheTimeout) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  server_.reset();
  const auto begin = steady_clock::now();
  const std::vector<uint64_t> keys = {1};
  std::vector<float> weights(1);
  const Status status = store->Pull(keys, weights);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("server 0 at 127.0.0.1:"), std::string::npos);
  EXPECT_NE(status.message().find("is gone"), std::string::npos) << status.message();
}

TEST_F(ShardClientTest, LostServerIsTriedAgainForTheTimeGiven) {
  StartServer(1);
  SessionOptions options = Session(Config(1), 0);
  options.wait.reconnect_s = 0.8;
  auto worker = Worker(options);
  ASSERT_TRUE(worker && worker->Start().ok());
  ExpectServes(*worker);
  server_.reset();
  const auto begin = steady_clock::now();
  const std::vector<uint64_t> keys = {1};
  std::vector<float> weights(1);
  EXPECT_EQ(worker->Pull(keys, weights).code(), Code::kIo);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(800));
}

TEST_F(ShardClientTest, RestartedServerIsAnErrorWithAdvice) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  const int port = server_->port();
  server_.reset();
  options_.port = port;
  StartServer(1);
  const std::vector<uint64_t> keys = {1};
  std::vector<float> weights(1);
  const Status status = store->Pull(keys, weights);
  EXPECT_NE(status.message().find("resume the job"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace millrace::ps
