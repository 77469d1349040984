// SPDX-License-Identifier: Apache-2.0
#include "sparse/local_dense_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/base/random.h"

namespace millrace::sparse {
namespace {

constexpr DenseRule kRules[] = {DenseRule::kSgd, DenseRule::kMomentum, DenseRule::kAdam};

// A net of two parameters.
struct Net {
  std::vector<float> a = std::vector<float>(1000, 0.5f), b = std::vector<float>(7, -1.0f);
  std::vector<DenseParam> params() { return {{"a", a}, {"b", b}}; }
};

void PushRandom(LocalDenseStore& store, uint64_t seed, int steps) {
  Random random(seed);
  for (int s = 0; s < steps; ++s) {
    for (size_t p = store.size(); p-- > 0;) {
      std::vector<float> gradient(store.weights(p).size());
      for (float& g : gradient) g = static_cast<float>(random.Uniform() - 0.5);
      ASSERT_TRUE(store.Push(p, gradient).ok());
    }
    for (size_t p = 0; p < store.size(); ++p) ASSERT_TRUE(store.Pull(p).ok());
  }
}

TEST(LocalDenseStore, InitKeepsTheGivenWeightsAndPushUpdatesThemInPlace) {
  Net net;
  LocalDenseStore store({.rule = DenseRule::kSgd, .rate = 0.5});
  ASSERT_TRUE(store.Init(net.params()).ok());
  EXPECT_EQ(net.b, std::vector<float>(7, -1.0f));
  ASSERT_TRUE(store.Push(1, std::vector<float>(7, 1.0f)).ok());
  EXPECT_EQ(net.b, std::vector<float>(7, -1.5f));
  EXPECT_EQ(net.a, std::vector<float>(1000, 0.5f));
}

TEST(LocalDenseStore, StateAndWeightsRoundTripExactly) {
  for (const DenseRule rule : kRules) {
    SCOPED_TRACE(DenseRuleName(rule));
    const DenseOptions options{.rule = rule, .decay_every = 7};
    Net net, copy;
    LocalDenseStore store(options), twin(options);
    ASSERT_TRUE(store.Init(net.params()).ok());
    PushRandom(store, 1, 10);
    copy = net;
    ASSERT_TRUE(twin.Init(copy.params()).ok());
    for (size_t p = 0; p < 2; ++p) std::ranges::copy(store.state(p), twin.state(p).begin());
    twin.set_steps(store.steps());
    PushRandom(store, 2, 10);
    PushRandom(twin, 2, 10);
    EXPECT_EQ(copy.a, net.a);
    EXPECT_EQ(copy.b, net.b);
  }
}

TEST(LocalDenseStore, ParallelUpdateChangesNothing) {
  for (const DenseRule rule : kRules) {
    Net net, spread_net;
    LocalDenseStore store({.rule = rule});
    LocalDenseStore spread({.rule = rule}, [](size_t size, const auto& work) {
      work(size / 3, size);
      work(0, size / 3);
    });
    ASSERT_TRUE(store.Init(net.params()).ok());
    ASSERT_TRUE(spread.Init(spread_net.params()).ok());
    PushRandom(store, 3, 5);
    PushRandom(spread, 3, 5);
    EXPECT_EQ(spread_net.a, net.a);
  }
}

TEST(LocalDenseStore, WrongSizesAndNumbersAreErrors) {
  Net net;
  LocalDenseStore store({});
  ASSERT_TRUE(store.Init(net.params()).ok());
  EXPECT_EQ(store.Push(1, std::vector<float>(8)).message(),
            "gradient of parameter 1: expected 7 numbers, found 8");
  EXPECT_FALSE(store.Push(2, std::vector<float>(7)).ok());
  EXPECT_FALSE(store.Pull(2).ok());
}

}  // namespace
}  // namespace millrace::sparse
