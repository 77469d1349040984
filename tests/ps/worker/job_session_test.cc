// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/job_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
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

// The checkpoint takes longer than a call and than the chief's time for its last step.
TEST_F(JobSessionTest, ChiefThatIsAskedToStopWaitsForItsCheckpoint) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  options_.shard.while_saving = [] { std::this_thread::sleep_for(milliseconds(400)); };
  options_.call_ms = 20;
  clock_ = std::make_unique<FastClock>();
  StartServer(1);
  std::atomic<bool> asked = false;
  SessionOptions interrupted = Session(Config(1), 0);
  interrupted.wait.should_stop = [&] { return asked.load(); };
  auto chief = Worker(interrupted);
  ASSERT_TRUE(chief && chief->Start().ok());
  ExpectServes(*chief);
  asked = true;
  const Status saved = chief->Checkpoint(1, "state");
  EXPECT_TRUE(saved.ok()) << saved.message();
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

// Progress that a job cannot use is refused, and left as it is.
class ResumeTest : public ServerTest {
 protected:
  static constexpr size_t kShards = 2;

  void StartServers(size_t shards = kShards) {
    servers_.clear();
    options_.shard.num_shards = shards;
    std::vector<HostPort> hosts;
    for (size_t shard = 0; shard < shards; ++shard) {
      options_.shard.shard = shard;
      options_.shard.checkpoints = folder_ / ("shard-" + std::to_string(shard));
      StartServer(1);
      hosts.push_back(thrift_.servers[0]);
      servers_.push_back(std::move(server_));
    }
    thrift_.servers = hosts;
  }
  std::unique_ptr<TestWorker> Join(size_t shards = kShards) {
    JobConfig config = Config(1);
    config.num_shards = shards;
    SessionOptions options = Session(config, 0);
    options.checkpoints = folder_.path();
    return Worker(options);
  }
  // A run with checkpoints 10 and 20.
  void MakeRun() {
    StartServers();
    auto worker = Join();
    ASSERT_TRUE(worker && worker->Start().ok());
    for (const uint64_t id : {10, 20}) {
      const Status saved = worker->Checkpoint(id, "state " + std::to_string(id));
      ASSERT_TRUE(saved.ok()) << saved.message();
    }
  }
  std::string Checkpoint(size_t shard, int id) const {
    return folder_ /
           ("shard-" + std::to_string(shard) + "/checkpoint-0000000000" + std::to_string(id));
  }
  Result<std::optional<RestoredReply>> Resume(size_t shards = kShards) {
    StartServers(shards);
    auto worker = Join(shards);
    if (!worker) return Failed("cannot join");
    return worker->session->RestoreLatest();
  }
  void ExpectRefused(const std::string& why, size_t shards = kShards) {
    const auto state = Resume(shards);
    EXPECT_FALSE(state.ok());
    EXPECT_NE(state.status().message().find(why), std::string::npos) << state.status().message();
  }

  const test::TemporaryFolder folder_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST_F(ResumeTest, TheNewestCheckpointThatAllServersHaveIsTaken) {
  MakeRun();
  auto state = Resume();
  ASSERT_TRUE(state.ok() && *state) << state.status().message();
  EXPECT_EQ((*state)->chief_state, "state 20");
  std::filesystem::remove(Checkpoint(1, 20));
  state = Resume();
  ASSERT_TRUE(state.ok() && *state) << state.status().message();
  EXPECT_EQ((*state)->chief_state, "state 10");
  EXPECT_TRUE(std::filesystem::exists(Checkpoint(0, 20))) << "a resume removes nothing";
}

TEST_F(ResumeTest, AServerWithoutItsCheckpointsIsNoStartFromTheBeginning) {
  MakeRun();
  for (const int id : {10, 20}) std::filesystem::remove(Checkpoint(1, id));
  ExpectRefused("expected checkpoint 10, which the manifest in " + folder_.path() +
                " names, found none");
  for (const int id : {10, 20}) EXPECT_TRUE(std::filesystem::exists(Checkpoint(0, id)));
}

TEST_F(ResumeTest, ADamagedCheckpointOnOneServerCostsTheOthersNothing) {
  MakeRun();
  for (const int id : {10, 20}) test::WriteFile(Checkpoint(1, id), "not a checkpoint");
  ExpectRefused("checkpoint-000000000010: offset 16: expected");
  for (const int id : {10, 20}) EXPECT_TRUE(std::filesystem::exists(Checkpoint(0, id)));
}

TEST_F(ResumeTest, AnotherNumberOfServersReadsAllParts) {
  MakeRun();
  const auto state = Resume(3);
  ASSERT_TRUE(state.ok() && *state) << state.status().message();
  EXPECT_EQ((*state)->chief_state, "state 20");
  EXPECT_EQ((*state)->workers.size(), 1u);
  for (const int id : {10, 20}) std::filesystem::remove(Checkpoint(1, id));
  ExpectRefused("part 1 of the 2 of checkpoint 10 is missing", 1);
}

TEST_F(ResumeTest, CheckpointsWithoutAManifestAreRefused) {
  MakeRun();
  std::filesystem::remove(folder_ / "manifest");
  ExpectRefused(folder_.path() + " has checkpoints, but no manifest that names one");
}

TEST_F(ResumeTest, ANewRunDoesNotTakeTheFolderOfAnEarlierOne) {
  MakeRun();
  StartServers();
  const Status started = Join()->Start();
  EXPECT_EQ(started.code(), Code::kInvalid);
  EXPECT_NE(started.message().find("has checkpoint 20 of an earlier run"), std::string::npos)
      << started.message();
  for (const int id : {10, 20}) EXPECT_TRUE(std::filesystem::exists(Checkpoint(0, id)));
}

TEST_F(ResumeTest, CheckpointsOfOneProcessAreRefused) {
  test::WriteFile(folder_ / "checkpoint-000000000010", "");
  ExpectRefused("has checkpoints, but no manifest that names one");
}

TEST_F(ResumeTest, ARunThatWasKilledBeforeItsFirstCheckpointWasCompleteStartsAgain) {
  StartServers();
  auto worker = Join();
  ASSERT_TRUE(worker && worker->Start().ok());
  bool done = false;  // on one server only
  ASSERT_TRUE(worker->session->client(0)
                  .Call([&](Channel& channel) { return channel.Checkpoint({.id = 10}, done); })
                  .ok());
  worker.reset();
  const auto state = Resume();
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_FALSE(state->has_value());
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
