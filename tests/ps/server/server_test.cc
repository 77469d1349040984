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
#include "tests/test_files.h"

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
        if (step < 49) store->Announce(step % 2 == 0 ? odd : even, {});
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
    Random random(1);
    std::vector<uint64_t> keys(500), next(500), after(500);
    std::vector<float> weights(500), gradient(500, 0.5f);
    for (int step = 0; step < 100; ++step) {
      keys.swap(next);
      next.swap(after);
      uint64_t key = 0;
      for (uint64_t& k : after) k = key += 1 + random.Below(180);
      if (step < 2) continue;
      store->Announce(next, after);
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

// Keys of steps, as a training loop announces them.
class KeySteps {
 public:
  KeySteps() { Advance(), Advance(); }
  void Advance() {
    now.swap(next);
    next.swap(after);
    after.resize(200);
    uint64_t key = 0;
    for (uint64_t& k : after) k = key += 1 + random_.Below(40);
  }
  std::vector<uint64_t> now, next, after;

 private:
  Random random_{5};
};

// Announced two steps ahead, one, or not at all; with a test and a checkpoint in between.
TEST_F(ServerTest, AnnouncementsChangeNothingButTheBytes) {
  const millrace::test::TemporaryFolder folder;
  options_.shard.checkpoints = folder.path();
  std::vector<std::vector<float>> models;
  std::vector<uint64_t> sent;
  for (const int announced : {0, 1, 2}) {
    StartServer(1);
    auto store = StartedWorker(Config(1));
    KeySteps keys;
    std::vector<float> weights(200), gradient(200), all(10000);
    std::vector<uint64_t> every(10000);
    for (uint64_t k = 0; k < every.size(); ++k) every[k] = k;
    for (uint64_t step = 0; step < 60; ++step) {
      keys.Advance();
      const std::span<const uint64_t> after = keys.after;
      if (announced > 0) store->Announce(keys.next, announced > 1 ? after : after.first(0));
      ASSERT_TRUE(store->Pull(keys.now, weights).ok());
      for (size_t i = 0; i < 200; ++i)
        gradient[i] = weights[i] + 0.01f * static_cast<float>(i % 7 + 1);
      store->Describe({.rows = 10, .weight = 10});
      ASSERT_TRUE(store->Push(keys.now, gradient).ok());
      const bool well = (step % 20 != 7 || store->Pull(every, all).ok()) &&
                        (step % 20 != 13 || store->Checkpoint(step, "").ok());
      ASSERT_TRUE(well);
    }
    ASSERT_TRUE(store->Flush().ok());
    ASSERT_TRUE(store->Pull(every, all).ok());
    models.push_back(all);
    EXPECT_EQ(store->progress().step, 60u);
    sent.push_back(store->wire(0).exchanges);
    EXPECT_EQ(store->wire(0).repeats, 0u) << "no list had to be sent a second time";
    ASSERT_TRUE(store->Finish().ok() && store->Leave().ok());
  }
  EXPECT_EQ(models[0], models[1]);
  EXPECT_EQ(models[0], models[2]);
  EXPECT_GT(sent[0], sent[1]) << "without announcements a step takes two exchanges";
  EXPECT_EQ(sent[1], sent[2]);
}

// A worker that is done reads the model while the other one, now alone, saves it: the push that was
// answered and not applied yet is applied once.
TEST_F(ServerTest, ReadingTheModelDuringACheckpointAppliesNothingTwice) {
  const millrace::test::TemporaryFolder folder;
  options_.shard.checkpoints = folder.path();
  StartServer(2);
  constexpr size_t kKeys = 500000;
  const JobConfig config = Config(2, kKeys);
  auto chief = Worker(config, 0), reader = Worker(config, 1);
  std::jthread start([&] { EXPECT_TRUE(reader->Start().ok()); });
  ASSERT_TRUE(chief->Start().ok());
  start.join();
  ASSERT_TRUE(reader->Finish().ok());
  std::vector<std::vector<uint64_t>> lists(3, std::vector<uint64_t>(kKeys));
  for (auto& list : lists) std::iota(list.begin(), list.end(), 0);
  std::vector<float> weights(kKeys), gradient(kKeys, 1.0f);
  const auto read_later = [&](int64_t us) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    EntriesReply reply;
    const auto read = [&](Channel& channel) { return channel.Entries(1 << 30, reply); };
    EXPECT_TRUE(reader->CallShard(0, read).ok());
  };
  for (uint64_t step = 0; step < 30; ++step) {
    const bool saves = step % 3 == 2;
    const std::span<const uint64_t> after = lists[(step + 2) % 3];
    chief->Announce(lists[(step + 1) % 3], saves ? after.first(0) : after);
    ASSERT_TRUE(chief->Pull(lists[step % 3], weights).ok());
    ASSERT_EQ(weights.front(), -static_cast<float>(step));
    ASSERT_EQ(weights.back(), -static_cast<float>(step));
    chief->Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(chief->Push(lists[step % 3], gradient).ok());
    if (!saves) continue;
    ASSERT_TRUE(chief->Flush().ok());
    std::jthread reads([&] { read_later(50 * static_cast<int64_t>(step)); });
    ASSERT_TRUE(chief->Checkpoint(step, "").ok());
  }
}

// The keys that were announced first are on the wire, and are sent again while the others wait.
TEST_F(ServerTest, AWorkerMayChangeItsMindAboutWhatComes) {
  options_.wait_ms = 20;
  StartServer(2);
  const JobConfig config = Config(2, 0);
  auto store = Worker(config, 0), other = Worker(config, 1);
  std::jthread start([&] { EXPECT_TRUE(other->Start().ok()); });
  ASSERT_TRUE(store->Start().ok());
  start.join();
  std::vector<std::vector<uint64_t>> lists;
  for (uint64_t i = 0; i < 6; ++i) lists.emplace_back(i == 4 ? 5000 : 100);
  for (auto& list : lists) std::iota(list.begin(), list.end(), list.size());
  std::vector<float> weights(100), gradient(100, 1.0f);
  store->Announce(lists[1], lists[2]);
  ASSERT_TRUE(store->Pull(lists[0], weights).ok());
  store->Describe({.rows = 1, .weight = 1});
  ASSERT_TRUE(store->Push(lists[0], gradient).ok());
  store->Announce(lists[2], lists[3]);
  store->Announce(lists[4], lists[5]);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(200));
    const std::vector<uint64_t> keys = {1, 2};
    std::vector<float> two(2, 1.0f);
    EXPECT_TRUE(other->Pull(keys, two).ok());
    other->Describe({.rows = 1, .weight = 1});
    EXPECT_TRUE(other->Push(keys, two).ok() && other->Flush().ok());
  });
  EXPECT_TRUE(store->Pull(lists[1], weights).ok());
  EXPECT_GT(store->wire(0).repeats, 0u);
  EXPECT_EQ(server_->summary().refused, 0u);
}

}  // namespace
}  // namespace millrace::ps
