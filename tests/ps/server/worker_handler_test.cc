// SPDX-License-Identifier: Apache-2.0
#include "ps/server/worker_handler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ps/worker/remote_dense_store.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class WorkerHandlerTest : public ServerTest {};

TEST_F(WorkerHandlerTest, FailedCheckpointDoesNotEndTheConnection) {
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
TEST_F(WorkerHandlerTest, LongCheckpointsDelayOtherWorkersButDisconnectNone) {
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

TEST_F(WorkerHandlerTest, PackedDenseBlockOfAnotherSizeIsRefused) {
  JobConfig config = Config(1, 0);
  config.dense.emplace();
  StartServer(1);
  const std::vector<float> weights(10), many(10 << 20);
  FloatCodec codec;
  std::string values, packed;
  ASSERT_TRUE(codec.Encode(weights, {}, values).ok());
  ASSERT_TRUE(codec.Encode(many, {.zstd = true}, packed).ok());
  const auto store = Worker(config, 0);
  const auto init = [&](uint32_t block, const std::string& numbers) {
    DenseReply reply;
    return store->session->client(0).Call([&](Channel& channel) {
      return channel.InitDense({.block = block, .values = numbers}, reply);
    });
  };
  ASSERT_TRUE(init(0, values).ok());
  const Status unknown = init(1, packed);
  EXPECT_NE(unknown.message().find("dense block 1 is packed, and unknown"), std::string::npos)
      << unknown.message();
  const Status large = init(0, packed);
  EXPECT_NE(large.message().find("zstd: "), std::string::npos) << large.message();
}

}  // namespace
}  // namespace millrace::ps
