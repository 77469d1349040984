// SPDX-License-Identifier: Apache-2.0
// Real servers, real sockets: who dies, stands still or cannot write.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/wire/key_codec.h"
#include "ps/worker/remote_dense_store.h"
#include "ps/worker/remote_store.h"
#include "ps/worker/thrift_transport.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

TEST_F(ServerTest, AServerThatIsGoneIsNamedInTime) {
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

TEST_F(ServerTest, AServerThatWasStartedAgainHasLostTheJob) {
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

TEST_F(ServerTest, AWorkerThatIsGoneEndsTheOthersWithItsName) {
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

// Twenty seconds pass in one.
class FastClock final : public Clock {
 public:
  int64_t NowNs() override { return 20 * real_.NowNs(); }
  void Pause(int64_t ns) override { real_.Pause(ns / 20); }

 private:
  RealClock real_;
};

TEST_F(ServerTest, AStepThatIsBlockedOnAWorkerIsDroppedWhenTheChiefIsAskedToStop) {
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
  ASSERT_TRUE(
      chief->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());  // the other one does nothing
  asked = true;
  EXPECT_EQ(chief->Flush().code(), Code::kCancelled);
  ASSERT_TRUE(chief->Stop().ok());
  const Status saved = chief->Checkpoint(1, "state");
  EXPECT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(chief->session->progress().step, 1u);
  ASSERT_TRUE(chief->Pull(keys, weights).ok());
  EXPECT_EQ(weights[0], -1);
}

TEST_F(ServerTest, ShardsOfDifferentStepsAreNotSaved) {
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

TEST_F(ServerTest, ACheckpointThatCannotBeWrittenIsNoFaultOfTheCaller) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "file", "");
  options_.shard.checkpoints = folder / "file/shard-0";
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const Status saved = store->Checkpoint(1, "state");
  EXPECT_EQ(saved.code(), Code::kFailed);
  EXPECT_NE(saved.message().find(options_.shard.checkpoints), std::string::npos) << saved.message();
  ExpectServes(*store);
}

// Checkpoints here take much longer than a call may wait.
TEST_F(ServerTest, CheckpointsHoldOthersUpAndEndNobody) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  options_.call_ms = 1;
  JobConfig config = Config(3, 0);
  config.mode = Mode::kAsync;
  config.dense.emplace();
  StartServer(3);
  std::unique_ptr<TestWorker> jobs[3];
  for (size_t w = 0; w < 3; ++w) jobs[w] = Worker(config, w);
  std::vector<std::jthread> workers;
  std::atomic<bool> done = false;
  for (size_t w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      std::vector<float> weights(1 << 20), gradient(1 << 20, 1.0f);
      RemoteDenseStore store(*jobs[w]->session);
      const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
      ASSERT_TRUE(store.Init(params).ok());
      for (uint64_t id = 1; w == 0 && id <= 10; ++id) {
        const Status saved = jobs[w]->Checkpoint(id, "state");
        EXPECT_TRUE(saved.ok()) << saved.message();
      }
      while (w == 1 && !done) {
        store.SetStep({.rows = 1, .weight = 1}, "");
        ASSERT_TRUE(store.Push(0, gradient).ok());
        const Status pulled = store.Pull(0);
        ASSERT_TRUE(pulled.ok()) << pulled.message();
      }
      done = true;
    });
  }
  ASSERT_TRUE(jobs[2]->Start().ok());
  SessionOptions again = Session(config, 2);
  again.rejoin = true;
  while (!done) {
    ASSERT_TRUE(Worker(again));
  }
}

}  // namespace
}  // namespace millrace::ps
