// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/remote_dense_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/trace.h"
#include "tests/support/server_fixture.h"

namespace millrace::ps {
namespace {

class RemoteDenseStoreTest : public ServerTest {};

// Three workers, two servers, parameters of several blocks and of a few numbers.
TEST_F(RemoteDenseStoreTest, DenseParametersAreTrainedTogetherAndEqualTheMeanBitForBit) {
  JobConfig config = Config(3, 0);
  config.num_shards = 2;
  config.dense.emplace();
  config.dense->rule = sparse::DenseRule::kMomentum;
  config.dense->rate = 0.25;
  options_.shard.num_shards = 2;
  options_.shard.shard = 1;
  StartServer(3);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  StartServer(3);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  const size_t big = RemoteDenseStore::kBlockFloats * 2 + 5;
  std::vector<std::vector<float>> finals(3);
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 3; ++w) {
    workers.emplace_back([&, w, job = Worker(config, w)] {
      std::vector<float> a(big, w == 0 ? 1.0f : 99.0f), b(7, 2), ga(big), gb(7, 0.5f);
      RemoteDenseStore store(*job->session);
      const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = a},
                                                      {.name = "b", .weights = b}};
      ASSERT_TRUE(store.Init(params).ok());
      EXPECT_EQ(a[5], 1);
      for (int step = 0; step < 5; ++step) {
        for (size_t i = 0; i < big; ++i) ga[i] = a[i] * 0.5f + static_cast<float>(w);
        store.SetStep({.rows = 10, .weight = 10}, std::to_string(step + 1));
        ASSERT_TRUE(store.Push(1, gb).ok());
        ASSERT_TRUE(store.Push(0, ga).ok());
        ASSERT_TRUE(store.Pull(0).ok());
        ASSERT_TRUE(store.Pull(1).ok());
      }
      finals[w] = a;
      EXPECT_EQ(job->session->progress().step, 5u);
      EXPECT_EQ(job->session->progress().examples, 5u * 30);
      ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
    });
  }
  workers.clear();
  EXPECT_EQ(finals[0], finals[1]);
  EXPECT_EQ(finals[0], finals[2]);
  // The same in plain arithmetic, for one number.
  float x = 1, m = 0;
  for (int step = 0; step < 5; ++step) {
    float mean = 0;
    for (int w = 0; w < 3; ++w) {
      mean += static_cast<float>(10.0 / 30) * (x * 0.5f + static_cast<float>(w));
    }
    m = 0.9f * m + mean;
    x -= 0.25f * m;
  }
  EXPECT_EQ(finals[0].front(), x);
  EXPECT_EQ(finals[0].back(), x);
}

// The sum of the bytes of all spans of that name in the trace.
uint64_t TracedBytes(const std::string& trace, const std::string& name) {
  uint64_t sum = 0;
  for (size_t at = 0; (at = trace.find("\"" + name + "\"", at)) != std::string::npos; ++at) {
    const size_t bytes = trace.find("\"bytes\":", at);
    if (bytes < trace.find('\n', at)) sum += std::stoull(trace.substr(bytes + 8));
  }
  return sum;
}

TEST_F(RemoteDenseStoreTest, DenseSpansContainTheBytesSent) {
  constexpr size_t kNumbers = 30000;
  for (const bool bf16 : {false, true}) {
    JobConfig config = Config(1, 0);
    config.dense.emplace();
    config.bf16 = bf16;
    StartServer(1);
    const auto job = Worker(config, 0);
    std::vector<float> weights(kNumbers, 1), gradient(kNumbers, 0.5f);
    RemoteDenseStore store(*job->session);
    const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
    ASSERT_TRUE(store.Init(params).ok());
    const WireStats before = store.wire(0);
    profiler::StartTracing();
    store.SetStep({.rows = 1, .weight = 1}, "");
    ASSERT_TRUE(store.Push(0, gradient).ok() && store.Pull(0).ok());
    profiler::StopTracing();
    const std::string trace = profiler::RecentTrace(1000);
    EXPECT_EQ(TracedBytes(trace, "push_dense"), 1 + (bf16 ? 2 : 4) * kNumbers);
    EXPECT_EQ(TracedBytes(trace, "pull_dense"), 1 + 4 * kNumbers);
    const WireStats after = store.wire(0);
    EXPECT_NEAR(static_cast<double>(after.sent - before.sent), (bf16 ? 2 : 4) * kNumbers, 600);
    ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
  }
}

TEST_F(RemoteDenseStoreTest, PackedDenseBlocksAreSmallerInBothDirectionsAndTrainTheSame) {
  constexpr size_t kNumbers = 30000;
  std::vector<std::vector<float>> finals;
  for (const bool zstd : {false, true}) {
    JobConfig config = Config(1, 0);
    config.dense.emplace();
    config.zstd = zstd;
    StartServer(1);
    const auto job = Worker(config, 0);
    std::vector<float> weights(kNumbers), gradient(kNumbers);
    for (size_t i = 0; i < kNumbers; ++i) gradient[i] = static_cast<float>(i % 7);
    RemoteDenseStore store(*job->session);
    const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
    ASSERT_TRUE(store.Init(params).ok());
    const WireStats before = store.wire(0);
    for (int step = 0; step < 3; ++step) {
      store.SetStep({.rows = 1, .weight = 1}, "");
      ASSERT_TRUE(store.Push(0, gradient).ok() && store.Pull(0).ok());
    }
    const WireStats after = store.wire(0);
    EXPECT_EQ(after.sent - before.sent < 3 * kNumbers, zstd);
    EXPECT_EQ(after.received - before.received < 3 * kNumbers, zstd);
    finals.push_back(weights);
    ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
  }
  EXPECT_NE(finals[0][1], 0);
  EXPECT_EQ(finals[0], finals[1]);
}

}  // namespace
}  // namespace millrace::ps
