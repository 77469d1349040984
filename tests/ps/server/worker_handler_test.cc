// SPDX-License-Identifier: Apache-2.0
#include "ps/server/worker_handler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/state/state_file.h"
#include "ps/worker/remote_dense_store.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class WorkerHandlerTest : public ServerTest {};

// Memory is exhausted as soon as a call begins.
class ExhaustedShard final : public ShardAccess {
 public:
  void lock() override {
    if (exhausted) throw std::bad_alloc();
  }
  void unlock() override {}
  Shard& shard() override { return shard_; }
  int64_t NowNs() override { return 0; }
  bool busy() const override { return false; }
  bool shutting_down() const override { return false; }
  bool WaitUntilFree() override { return true; }
  bool WaitUntil(const std::function<bool()>&) override { return true; }
  void NotifyAll() override {}
  std::optional<Status> RunLong(uint64_t, std::function<Status(Shard&)>) override { return {}; }

  bool exhausted = false;

 private:
  Shard shard_{{}};
};

// Thrift would send the exception as a reply, and the worker would repeat a push that may have been
// applied in part.
TEST(WorkerHandlerDeathTest, ExhaustedMemoryEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ExhaustedShard access;
  WorkerHandler handler(access);
  JoinReply reply;
  EXPECT_DEATH(access.exhausted = true; (void)handler.Join({}, reply), "bad_alloc");
}

TEST_F(WorkerHandlerTest, FailedCheckpointDoesNotEndTheConnection) {
  const test::TemporaryFolder folder;
  const std::string shard = options_.shard.checkpoints = folder / "shard-0";
  StartServer(1);
  options_.shard.checkpoints = folder / "run";  // the chief's
  auto store = StartedWorker(Config(1));
  std::filesystem::remove_all(shard);
  test::WriteFile(shard, "");
  const Status saved = store->Checkpoint(1, "state");
  EXPECT_EQ(saved.code(), Code::kFailed);
  EXPECT_NE(saved.message().find(shard), std::string::npos) << saved.message();
  ExpectServes(*store);
}

// With backup workers, a worker that is lost or finishes can complete the step that the others have
// pushed. On a slow disk this happens while the model is being written.
TEST_F(ServerTest, NoStepIsMadeWhileACheckpointIsWritten) {
  const test::TemporaryFolder folder;
  for (const bool finishes : {false, true}) {
    SCOPED_TRACE(finishes);
    options_.shard.checkpoints = folder / (finishes ? "finished" : "lost");
    options_.call_ms = 20;
    std::atomic<bool> saving = false, go_on = false;
    options_.shard.while_saving = [&] {
      saving = true;
      while (!go_on) std::this_thread::sleep_for(milliseconds(1));
    };
    JobConfig config = Config(3);
    config.replicas_to_aggregate = 2;
    StartServer(3);
    std::unique_ptr<TestWorker> jobs[3];
    for (size_t w = 0; w < 3; ++w) jobs[w] = Worker(config, w);
    std::vector<std::jthread> starts;
    for (auto& job : jobs) starts.emplace_back([&] { ASSERT_TRUE(job->Start().ok()); });
    starts.clear();
    const std::vector<uint64_t> keys = {5, 6};
    const std::vector<float> gradient = {1, 1};
    std::vector<float> weights(2);
    ASSERT_TRUE(jobs[0]->Pull(keys, weights).ok());
    for (const size_t w : {1, 2}) {
      ASSERT_TRUE(jobs[w]->Pull(keys, weights).ok());
      ASSERT_TRUE(jobs[w]->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
    }
    for (const size_t w : {1, 2}) ASSERT_TRUE(jobs[w]->Flush().ok());           // step 1
    ASSERT_TRUE(jobs[0]->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());  // too late
    ASSERT_TRUE(jobs[0]->Flush().ok());
    // Worker 1 pushes for step 2 and waits: one gradient of two.
    ASSERT_TRUE(jobs[1]->Pull(keys, weights).ok());
    ASSERT_TRUE(jobs[1]->Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
    Status saved;
    std::jthread checkpoint([&] { saved = jobs[0]->session->Checkpoint(1, "state"); });
    while (!saving) std::this_thread::sleep_for(milliseconds(1));
    std::jthread leaving([&] {  // one active worker besides the chief: the step needs no more
      if (finishes) {
        EXPECT_TRUE(jobs[2]->session->Finish().ok());
      } else {
        jobs[2].reset();
      }
    });
    std::this_thread::sleep_for(milliseconds(100));
    go_on = true;
    checkpoint.join();
    leaving.join();
    ASSERT_TRUE(saved.ok()) << saved.message();
    auto reader = io::StateReader::Open(options_.shard.checkpoints + "/checkpoint-000000000001");
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    io::StateBlock block;
    ASSERT_TRUE(*reader->Next(block));
    ASSERT_EQ(block.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(block.state(i)[0], -1) << i;
    EXPECT_EQ(*reader->fields().Uint("steps"), 1u);
    jobs[0].reset();
    jobs[1].reset();
    server_.reset();
  }
}

TEST_F(ServerTest, OnlyTheChiefOrdersAndRestoresCheckpointsAndLoadsWeights) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  StartServer(2);
  auto chief = Worker(Config(2), 0), other = Worker(Config(2), 1);
  std::jthread start([&] { EXPECT_TRUE(other->Start().ok()); });
  ASSERT_TRUE(chief->Start().ok());
  start.join();
  ASSERT_TRUE(chief->session->Checkpoint(0, "state").ok());
  bool done = false;
  HoldReply held;
  for (const auto& call : std::vector<std::function<Status(Channel&)>>{
           [&](Channel& c) { return c.Checkpoint({.id = 9}, done); },
           [&](Channel& c) { return c.Restore({}, done); },
           [&](Channel& c) { return c.HoldPushes({}, held); },
           [](Channel& c) { return c.Load(""); }}) {
    const Status refused = other->session->client(0).Call(call);
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_NE(refused.message().find("only worker 0"), std::string::npos) << refused.message();
    other.reset();  // the refusal closed its connection
    SessionOptions again = Session(Config(2), 1);
    again.rejoin = true;
    other = Worker(again);
    ASSERT_TRUE(other);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "shard-0/checkpoint-000000000009"));
  EXPECT_TRUE(std::filesystem::exists(folder / "shard-0/checkpoint-000000000000"));
}

// The process that rejoins waits; the live one trains on.
TEST_F(ServerTest, AnotherProcessNeverReplacesALiveWorker) {
  StartServer(1);
  options_.call_ms = 20;
  auto live = StartedWorker(Config(1));
  std::atomic<bool> stop = false;
  SessionOptions again = Session(Config(1), 0);
  again.rejoin = true;
  again.wait.should_stop = [&] { return stop.load(); };
  std::vector<std::string> notes;
  std::jthread rejoin([&] {
    auto transport = MakeThriftTransport(again.thrift);
    RealClock clock;
    EXPECT_EQ(JobSession::Join(again, **transport, clock).status().code(), Code::kCancelled);
  });
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    ExpectServes(*live);
  }
  stop = true;
  rejoin.join();
  live.reset();
  stop = false;
  EXPECT_TRUE(Worker(again));  // the connection has ended
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
    jobs[2].reset();
    jobs[2] = Worker(again);
    ASSERT_TRUE(jobs[2]);
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
