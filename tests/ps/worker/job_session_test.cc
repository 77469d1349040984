// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/job_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/wire/key_codec.h"
#include "ps/worker/thrift_transport.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class JobSessionTest : public ServerTest {};

// Runs twenty times as fast as real time.
class FastClock final : public Clock {
 public:
  int64_t NowNs() override { return 20 * real_.NowNs(); }
  void Pause(int64_t ns) override { real_.Pause(ns / 20); }

 private:
  RealClock real_;
};

TEST_F(JobSessionTest, BlockedStepIsDroppedWhenTheChiefIsAskedToStop) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  clock_ = std::make_unique<FastClock>();
  StartServer(2);
  std::atomic<bool> asked = false;
  SessionOptions interrupted = Session(Config(2), 0);
  interrupted.wait.should_stop = [&] { return asked.load(); };
  auto chief = Worker(interrupted);
  auto other = Worker(Config(2), 1);
  ASSERT_TRUE(chief && other);
  std::jthread waiting([&] { ASSERT_TRUE(other->Start().ok()); });
  ASSERT_TRUE(chief->Start().ok());
  waiting.join();
  const std::vector<uint64_t> keys = {1};
  const std::vector<float> gradient = {1};
  std::vector<float> weights(1);
  for (TestWorker* store : {other.get(), chief.get()}) {
    ASSERT_TRUE(store->Pull(keys, weights).ok());
    ASSERT_TRUE(store->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
  }
  ASSERT_TRUE(chief->Flush().ok());
  ASSERT_TRUE(chief->Pull(keys, weights).ok());
  ASSERT_TRUE(chief->Push(keys, gradient, {.rows = 1, .weight = 1})
                  .ok());  // the other worker pushes nothing
  asked = true;
  EXPECT_EQ(chief->Flush().code(), Code::kCancelled);
  ASSERT_TRUE(chief->Stop().ok());
  const Status saved = chief->Checkpoint(1, "state");
  EXPECT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(chief->session->progress().step, 1u);
  ASSERT_TRUE(chief->Pull(keys, weights).ok());
  EXPECT_EQ(weights[0], -1);
}

TEST_F(JobSessionTest, ShardsOfDifferentStepsAreNotSaved) {
  const test::TemporaryFolder folder;
  JobConfig config = Config(2);
  config.num_shards = options_.shard.num_shards = 2;
  clock_ = std::make_unique<FastClock>();
  options_.shard.shard = 1;
  options_.shard.checkpoints = folder / "shard-1";
  StartServer(2);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  options_.shard.checkpoints = folder / "shard-0";
  StartServer(2);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  SessionOptions interrupted = Session(config, 0);
  std::atomic<bool> asked = false;
  interrupted.wait.should_stop = [&] { return asked.load(); };
  auto chief = Worker(interrupted);
  ASSERT_TRUE(chief);
  // The other worker reaches only the first server.
  auto transport = MakeThriftTransport(thrift_);
  ASSERT_TRUE(transport.ok());
  std::unique_ptr<Channel> channels[2];
  for (size_t shard = 0; shard < 2; ++shard) {
    auto channel = (*transport)->Connect(shard);
    ASSERT_TRUE(channel.ok());
    channels[shard] = std::move(*channel);
    JoinReply joined;
    ASSERT_TRUE(channels[shard]
                    ->Join({.token = options_.token,
                            .worker = 1,
                            .name = {},
                            .config = config.Fields().Encode()},
                           joined)
                    .ok());
  }
  ASSERT_TRUE(chief->Start().ok());
  ExchangeRequest push;
  push.sequence = push.rows = 1;
  push.pushes = true;
  std::string no_keys;
  EncodeKeys({}, no_keys);
  push.push_keys = no_keys;
  push.push_list = ListSignature(no_keys);
  FloatCodec floats;
  std::string no_numbers;
  ASSERT_TRUE(floats.Encode({}, {}, no_numbers).ok());
  push.gradient = no_numbers;
  ASSERT_TRUE(channels[0]->SendExchange(push).ok());
  ASSERT_TRUE(chief->Push({}, {}, {.rows = 1, .weight = 1}).ok());
  asked = true;
  EXPECT_EQ(chief->Flush().code(), Code::kCancelled);
  ASSERT_TRUE(chief->Stop().ok());
  const Status saved = chief->Checkpoint(1, "state");
  EXPECT_EQ(saved.code(), Code::kFailed);
  EXPECT_NE(saved.message().find("is at step 1 and server 1"), std::string::npos)
      << saved.message();
  EXPECT_NE(saved.message().find("with an incomplete step"), std::string::npos) << saved.message();
}

// The chief blocks until the job has trained on a number of examples, without polling.
TEST_F(JobSessionTest, WaitingForProgressEndsWithTheExamplesOrWithTheWorkers) {
  options_.call_ms = 20000;
  StartServer(2);
  JobConfig config = Config(2);
  config.mode = Mode::kAsync;
  auto chief = Worker(config, 0), other = Worker(config, 1);
  std::jthread start([&] { EXPECT_TRUE(other->Start().ok()); });
  ASSERT_TRUE(chief->Start().ok());
  start.join();
  ASSERT_TRUE(chief->Finish().ok());
  const std::vector<uint64_t> keys = {7};
  const std::vector<float> gradient = {1};
  std::jthread pushing([&] {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_TRUE(other->Push(keys, gradient, {.rows = 10, .weight = 10}).ok());
      EXPECT_TRUE(other->Flush().ok());
    }
  });
  const auto more = chief->session->WaitForProgress(30);
  ASSERT_TRUE(more.ok() && *more);
  EXPECT_EQ(chief->session->progress().examples, 30u);
  pushing.join();
  ASSERT_TRUE(other->Finish().ok());
  const auto end = chief->session->WaitForProgress(1000);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(*end);
}

}  // namespace
}  // namespace millrace::ps
