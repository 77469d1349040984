// SPDX-License-Identifier: Apache-2.0
#include "sparse/local_store.h"

#include <gtest/gtest.h>

#include <map>

#include "io/base/random.h"

namespace millrace::sparse {
namespace {

std::unique_ptr<LocalStore> Make(uint64_t num_features, Rule rule) {
  auto store = LocalStore::Create({num_features}, {.rule = rule});
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

std::vector<uint64_t> SortedKeys(Random& random, uint64_t below) {
  std::map<uint64_t, bool> keys;
  for (int i = 0; i < 50; ++i) keys[random.Next() % below] = true;
  std::vector<uint64_t> sorted;
  for (const auto& [key, unused] : keys) sorted.push_back(key);
  return sorted;
}

void PushRandom(LocalStore& store, uint64_t seed, int steps) {
  Random random(seed);
  for (int s = 0; s < steps; ++s) {
    auto keys = SortedKeys(random, 5000);
    keys.push_back(io::kInterceptKey);
    std::vector<float> gradient(keys.size());
    for (float& g : gradient) g = static_cast<float>(random.Uniform() - 0.5);
    ASSERT_TRUE(store.Push(keys, gradient, {}).ok());
  }
}

std::vector<float> AllWeights(LocalStore& store) {
  std::vector<uint64_t> keys(5000);
  for (uint64_t k = 0; k < keys.size(); ++k) keys[k] = k;
  keys.push_back(io::kInterceptKey);
  std::vector<float> weights(keys.size());
  EXPECT_TRUE(store.Pull(keys, weights).ok());
  return weights;
}

TEST(LocalStore, UnseenKeysHaveWeightZero) {
  for (const Rule rule : kRules) {
    for (const float w : AllWeights(*Make(5000, rule))) ASSERT_EQ(w, 0);
    for (const float w : AllWeights(*Make(0, rule))) ASSERT_EQ(w, 0);
  }
}

TEST(LocalStore, HashedKeyAndDenseIndexTablesAreTheSameBitForBit) {
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    auto dense = Make(5000, rule), hashed = Make(0, rule);
    PushRandom(*dense, 1, 300);
    PushRandom(*hashed, 1, 300);
    EXPECT_EQ(AllWeights(*dense), AllWeights(*hashed));
  }
}

TEST(LocalStore, StateRoundTripsExactly) {
  for (const Rule rule : kRules) {
    for (const uint64_t features : {uint64_t{5000}, uint64_t{0}}) {
      SCOPED_TRACE(RuleName(rule));
      auto store = Make(features, rule);
      PushRandom(*store, 2, 50);
      auto copy = Make(features, rule);
      uint64_t last = 0, seen = 0;
      store->ForEach([&](uint64_t key, std::span<const float> state) {
        EXPECT_TRUE(seen++ == 0 || key > last) << "keys ascend";
        last = key;
        EXPECT_EQ(state.size(), store->slot_floats());
        EXPECT_TRUE(copy->Load(key, state).ok());
      });
      copy->set_steps(store->steps());
      PushRandom(*store, 3, 20);
      PushRandom(*copy, 3, 20);
      EXPECT_EQ(AllWeights(*copy), AllWeights(*store));
    }
  }
}

// Keys from 1,000 to 1,999 and from 4,000 on have a rate, l1 and l2 of their own.
UpdateOptions Grouped(Rule rule, bool normalize) {
  const double l1 = rule == Rule::kFtrl ? 0.3 : 0;
  return {.rule = rule,
          .rate = 0.1,
          .l2 = 0.01,
          .normalize = normalize,
          .key_groups = {.groups = {{.rate = 3, .l1 = l1, .l2 = 0.5}},
                         .ranges = {{1000, 1}, {2000, 0}, {3000, 0}, {4000, 1}}}};
}

std::unique_ptr<LocalStore> Make(uint64_t num_features, const UpdateOptions& options) {
  auto store = LocalStore::Create({num_features}, options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

TEST(LocalStore, KeysOfAGroupAreTrainedLikeAModelWithItsNumbers) {
  for (const Rule rule : kRules) {
    for (const uint64_t features : {uint64_t{5000}, uint64_t{0}}) {
      for (const bool normalize : {false, true}) {
        SCOPED_TRACE(RuleName(rule));
        const UpdateOptions grouped = Grouped(rule, normalize);
        UpdateOptions run = grouped, own = GroupOptions(grouped, 1);
        run.key_groups = own.key_groups = {};
        EXPECT_DOUBLE_EQ(own.rate, 0.3);
        auto store = Make(features, grouped), of_run = Make(features, run);
        auto of_group = Make(features, own);
        EXPECT_FALSE(store->direct());
        for (LocalStore* each : {store.get(), of_run.get(), of_group.get()}) {
          PushRandom(*each, 1, 100);
        }
        const auto weights = AllWeights(*store), run_weights = AllWeights(*of_run);
        const auto group_weights = AllWeights(*of_group);
        int differ = 0;
        for (size_t k = 0; k < weights.size(); ++k) {
          const bool in_group = (k >= 1000 && k < 2000) || (k >= 4000 && k < 5000);
          ASSERT_EQ(weights[k], in_group ? group_weights[k] : run_weights[k]) << k;
          differ += group_weights[k] != run_weights[k] ? 1 : 0;
        }
        EXPECT_GT(differ, 3000);
        auto copy = Make(features, grouped), from_weights = Make(features, grouped);
        store->ForEach([&](uint64_t key, std::span<const float> state) {
          EXPECT_TRUE(copy->Load(key, state).ok());
          EXPECT_TRUE(from_weights->LoadWeight(key, state[0]).ok());
        });
        EXPECT_EQ(AllWeights(*copy), weights);
        const auto again = AllWeights(*from_weights);
        for (size_t k = 0; k < weights.size(); ++k) ASSERT_NEAR(again[k], weights[k], 1e-5) << k;
      }
    }
  }
}

// With other numbers of a group, FTRL needs another z for the same weight.
TEST(LocalStore, WeightsStayWhenTheNumbersOfAGroupChange) {
  const UpdateOptions before = Grouped(Rule::kFtrl, false);
  UpdateOptions after = before;
  after.key_groups.groups[0] = {.rate = 0.5, .l1 = 2, .l2 = 7};
  auto store = Make(5000, before), next = Make(5000, after);
  PushRandom(*store, 1, 100);
  store->ForEach([&](uint64_t key, std::span<const float> state) {
    EXPECT_TRUE(next->LoadTrainedWith(before, key, state).ok());
  });
  const auto weights = AllWeights(*store), now = AllWeights(*next);
  for (size_t k = 0; k < weights.size(); ++k) ASSERT_NEAR(now[k], weights[k], 1e-5) << k;
}

TEST(LocalStore, HashedKeyTableTakesTheLargestKeysAndGrows) {
  auto store = Make(0, Rule::kSgd);
  std::vector<uint64_t> keys = {0, 1, ~uint64_t{0} - 1, ~uint64_t{0}};
  for (uint64_t k = 10; k < 100000; k += 7) keys.insert(keys.end() - 2, k);
  ASSERT_TRUE(store->Push(keys, std::vector<float>(keys.size(), 1.0f), {}).ok());
  std::vector<float> weights(keys.size());
  ASSERT_TRUE(store->Pull(keys, weights).ok());
  for (const float w : weights) ASSERT_LT(w, 0);
}

TEST(LocalStore, KeyBeyondTheModelIsAnErrorAndChangesNothing) {
  auto store = Make(100, Rule::kAdaGrad);
  const std::vector<uint64_t> keys = {5, 100};
  std::vector<float> values(2, 1.0f);
  EXPECT_EQ(store->Pull(keys, values).message(),
            "key: expected below num_features = 100, found 100");
  EXPECT_FALSE(store->Push(keys, values, {}).ok());
  store->ForEach([](uint64_t key, std::span<const float>) { ADD_FAILURE() << "touched " << key; });
  EXPECT_FALSE(store->Load(3, std::vector<float>(7)).ok());
}

TEST(LocalStore, NegativeSumOfSquaresIsRefused) {
  for (const Rule rule : kRules) {
    if (rule == Rule::kSgd) continue;  // its slot has no squares
    auto store = Make(10, rule);
    std::vector<float> state(store->slot_floats(), 1.0f);
    EXPECT_TRUE(store->Load(1, state).ok());
    state.back() = -1;
    EXPECT_EQ(store->Load(7, state).message(),
              "state of feature 7: expected a sum of squares, found -1");
    EXPECT_EQ(store->Load(io::kInterceptKey, state).message(),
              "state of feature (intercept): expected a sum of squares, found -1");
  }
}

TEST(LocalStore, OnlyDenseIndexTablesAreDirect) {
  for (const Rule rule : kRules) {
    EXPECT_TRUE(Make(10, rule)->direct());
    EXPECT_FALSE(Make(0, rule)->direct());
  }
  EXPECT_FALSE((*LocalStore::Create({10}, {.rule = Rule::kSgd, .l2 = 0.1}))->direct());
}

TEST(LocalStore, TooLargeAModelIsAnErrorNotACrash) {
  EXPECT_FALSE(LocalStore::Create({uint64_t{1} << 60}, {.rule = Rule::kFtrl}).ok());
}

}  // namespace
}  // namespace millrace::sparse
