// SPDX-License-Identifier: Apache-2.0
// Stores of models with factors.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "io/base/random.h"
#include "sparse/local_store.h"

namespace millrace::sparse {
namespace {

constexpr uint64_t kFeatures = 3000;
constexpr size_t kWidth = 8;

std::unique_ptr<LocalStore> Make(uint64_t num_features, UpdateOptions options, uint64_t seed = 1,
                                 uint32_t admit = 1) {
  auto store = LocalStore::Create(
      {.num_features = num_features,
       .factors =
           {.kind = ModelKind::kFm, .factors = kWidth, .admit = admit, .init = 0.1, .seed = seed}},
      options);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

UpdateOptions Options(Rule rule, bool normalize = false) {
  return {.rule = rule,
          .l1 = rule == Rule::kFtrl ? 0.01 : 0.0,
          .factor_l2 = 0.001,
          .normalize = normalize};
}

std::vector<uint64_t> RandomKeys(Random& random) {
  std::map<uint64_t, bool> keys;
  for (int i = 0; i < 20; ++i) keys[random.Below(kFeatures)] = true;
  std::vector<uint64_t> sorted;
  for (const auto& [key, unused] : keys) sorted.push_back(key);
  return sorted;
}

void Train(LocalStore& store, uint64_t seed, int steps) {
  Random random(seed);
  for (int s = 0; s < steps; ++s) {
    std::vector<uint64_t> keys = RandomKeys(random);
    const size_t features = keys.size();
    keys.push_back(io::kInterceptKey);
    const size_t scales = store.has_scales() ? keys.size() : 0;
    std::vector<float> weights(keys.size() + scales + features * kWidth);
    ASSERT_TRUE(store.PullBatch(0, keys, weights).ok());
    std::vector<float> gradient(weights.size());
    for (float& g : gradient) g = static_cast<float>(random.Uniform() - 0.5);
    for (size_t i = 0; i < scales; ++i) gradient[keys.size() + i] = 0x1p3f;
    ASSERT_TRUE(store.Push(keys, gradient, {}).ok());
  }
}

using Entries = std::map<uint64_t, std::vector<float>>;
Entries EntriesOf(const LocalStore& store) {
  Entries entries;
  store.ForEach([&](uint64_t key, std::span<const float> state) {
    entries[key].assign(state.begin(), state.end());
  });
  return entries;
}

TEST(FactorStore, AFeatureThatWasNeverTrainedHasNoFactorsUntilABatchHasIt) {
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
      auto store = Make(num_features, Options(rule));
      const std::vector<uint64_t> keys = {5, 17};
      std::vector<float> factors(2 * kWidth, 1.0f), first(2 + 2 * kWidth);
      ASSERT_TRUE(store->PullFactors(keys, factors).ok());
      EXPECT_EQ(factors, std::vector<float>(2 * kWidth));
      EXPECT_TRUE(EntriesOf(*store).empty());
      ASSERT_TRUE(store->PullBatch(1, keys, first).ok());
      ASSERT_TRUE(store->PullFactors(keys, factors).ok());
      std::vector<float> expected(2 * kWidth);
      InitialFactors(store->shape().factors, 5, std::span(expected).first(kWidth));
      InitialFactors(store->shape().factors, 17, std::span(expected).last(kWidth));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(factors[i], expected[i], 1e-7);
        EXPECT_EQ(first[2 + i], factors[i]);
      }
    }
  }
}

TEST(FactorStore, HashedKeyAndDenseIndexTablesAreTheSameBitForBit) {
  for (const Rule rule : kRules) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(RuleName(rule));
      auto dense = Make(kFeatures, Options(rule, normalize));
      auto hashed = Make(0, Options(rule, normalize));
      Train(*dense, 1, 100);
      Train(*hashed, 1, 100);
      EXPECT_EQ(EntriesOf(*dense), EntriesOf(*hashed));
      EXPECT_GT(EntriesOf(*dense).size(), 500u);
    }
  }
}

TEST(FactorStore, AStoreThatIsLoadedFromItsEntriesTrainsOnBitForBit) {
  for (const Rule rule : kRules) {
    for (const bool normalize : {false, true}) {
      for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
        SCOPED_TRACE(RuleName(rule));
        auto whole = Make(num_features, Options(rule, normalize));
        Train(*whole, 1, 50);
        auto loaded = Make(num_features, Options(rule, normalize));
        for (const auto& [key, state] : EntriesOf(*whole)) {
          ASSERT_TRUE(loaded->Load(key, state).ok());
        }
        loaded->set_steps(whole->steps());
        EXPECT_EQ(EntriesOf(*loaded), EntriesOf(*whole));
        Train(*whole, 2, 50);
        Train(*loaded, 2, 50);
        EXPECT_EQ(EntriesOf(*loaded), EntriesOf(*whole));
      }
    }
  }
}

TEST(FactorStore, AFeatureHasFactorsFromTheBatchOnThatAdmitsIt) {
  constexpr uint32_t kAdmit = 3;
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    auto store = Make(0, Options(rule), 1, kAdmit);
    const uint64_t key = 77;
    for (uint32_t batch = 1; batch <= kAdmit + 1; ++batch) {
      std::vector<float> pulled(1 + kWidth), peeked(1 + kWidth), initial(kWidth);
      ASSERT_TRUE(store->PeekBatch({&key, 1}, peeked).ok());
      ASSERT_TRUE(store->PullBatch(batch, {&key, 1}, pulled).ok());
      ASSERT_TRUE(store->PullBatch(batch, {&key, 1}, pulled).ok());  // is no other batch
      EXPECT_EQ(peeked, pulled) << batch;
      const std::vector<float> factors(pulled.begin() + 1, pulled.end());
      InitialFactors(store->shape().factors, key, initial);
      if (batch < kAdmit) {
        EXPECT_EQ(factors, std::vector<float>(kWidth)) << batch;
      }
      if (batch == kAdmit) {
        for (size_t i = 0; i < kWidth; ++i) EXPECT_NEAR(factors[i], initial[i], 1e-7);
      }
      if (batch > kAdmit) {
        EXPECT_NE(factors, initial);
      }
      ASSERT_TRUE(store->Push({&key, 1}, std::vector<float>(1 + kWidth, 0.5f), {}).ok());
      float weight = 0;
      ASSERT_TRUE(store->Pull({&key, 1}, {&weight, 1}).ok());
      EXPECT_NE(weight, 0) << batch;
      EXPECT_EQ(EntriesOf(*store)[key].back(), std::min(batch, kAdmit - 1)) << batch;
    }
  }
}

TEST(FactorStore, CountsOfBatchesAreLoadedWithTheState) {
  for (const Rule rule : kRules) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(RuleName(rule));
      auto whole = Make(0, Options(rule, normalize), 1, 3);
      Train(*whole, 1, 200);
      auto loaded = Make(0, Options(rule, normalize), 1, 3);
      size_t linear = 0, with_factors = 0;
      for (const auto& [key, state] : EntriesOf(*whole)) {
        ASSERT_EQ(state.size(), whole->slot_floats());
        ASSERT_TRUE(loaded->Load(key, state).ok());
        ++(state[1] == 0 ? linear : with_factors);
      }
      EXPECT_GT(linear, 100u);
      EXPECT_GT(with_factors, 100u);
      loaded->set_steps(whole->steps());
      EXPECT_EQ(EntriesOf(*loaded), EntriesOf(*whole));
      Train(*whole, 2, 50);
      Train(*loaded, 2, 50);
      EXPECT_EQ(EntriesOf(*loaded), EntriesOf(*whole));
    }
  }
  auto store = Make(0, Options(Rule::kSgd), 1, 3);
  std::vector<float> state(store->slot_floats());
  for (const float count : {3.0f, 0.5f, -1.0f}) {
    state.back() = count;
    EXPECT_EQ(store->Load(5, state).code(), Code::kInvalid) << count;
  }
}

TEST(FactorStore, OnlyAHashedKeyTableAdmitsFeaturesLater) {
  const ModelShape shape = {
      .num_features = 10,
      .factors = {.kind = ModelKind::kFm, .factors = 8, .admit = 2, .init = 0.1}};
  EXPECT_EQ(LocalStore::Create(shape, {}).status().message(),
            "admit_factors: expected a hashed-key table (num_features = 0), or 1, found "
            "num_features = 10");
}

TEST(FactorStore, AnEntryIsParametersAndThenTheirStatePlaneByPlane) {
  auto store = Make(kFeatures, Options(Rule::kAdaGrad));
  EXPECT_EQ(store->slot_floats(), 2 * (1 + kWidth));
  Train(*store, 1, 30);
  for (const auto& [key, state] : EntriesOf(*store)) {
    std::vector<float> factors(kWidth);
    if (key == io::kInterceptKey) continue;
    ASSERT_TRUE(store->PullFactors({&key, 1}, factors).ok());
    EXPECT_EQ(std::vector<float>(state.begin() + 1, state.begin() + 1 + kWidth), factors);
    for (size_t i = 1 + kWidth; i < state.size(); ++i) ASSERT_GE(state[i], 0);
  }
}

TEST(FactorStore, FactorsFollowTheRuleOfTheWeightsWithTheirOwnL2) {
  auto store = Make(kFeatures, {.rule = Rule::kSgd, .rate = 0.5, .factor_l2 = 0.25});
  const uint64_t key = 3;
  std::vector<float> pulled(1 + kWidth), gradient(1 + kWidth, 0.5f), after(1 + kWidth);
  ASSERT_TRUE(store->PullBatch(1, {&key, 1}, pulled).ok());
  ASSERT_TRUE(store->Push({&key, 1}, gradient, {}).ok());
  ASSERT_TRUE(store->PullBatch(2, {&key, 1}, after).ok());
  EXPECT_EQ(after[0], -0.25f);
  for (size_t i = 1; i <= kWidth; ++i) {
    EXPECT_EQ(after[i], pulled[i] - 0.5f * (0.5f + 0.25f * pulled[i]));
  }
}

TEST(FactorStore, LoadedWeightsAndFactorsAreTheStartOfTraining) {
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    auto store = Make(kFeatures, Options(rule));
    const uint64_t key = 9;
    std::vector<float> given(kWidth), found(kWidth);
    for (size_t i = 0; i < kWidth; ++i) given[i] = 0.25f * static_cast<float>(i) - 0.5f;
    ASSERT_TRUE(store->LoadWeight(key, 0.75f, given).ok());
    float weight = 0;
    ASSERT_TRUE(store->Pull({&key, 1}, {&weight, 1}).ok());
    ASSERT_TRUE(store->PullFactors({&key, 1}, found).ok());
    EXPECT_NEAR(weight, 0.75, 1e-6);
    for (size_t i = 0; i < kWidth; ++i) EXPECT_NEAR(found[i], given[i], 1e-6);
    // Of an lr: a weight without factors, which come with the first batch.
    ASSERT_TRUE(store->LoadWeight(10, 0.5f).ok());
    const uint64_t other = 10;
    ASSERT_TRUE(store->PullFactors({&other, 1}, found).ok());
    EXPECT_EQ(found, std::vector<float>(kWidth));
  }
}

TEST(FactorStore, StateOfTheWrongLengthIsAnError) {
  auto store = Make(kFeatures, Options(Rule::kAdaGrad));
  const std::vector<float> short_state(2);
  EXPECT_EQ(store->Load(1, short_state).message(),
            "state of a feature: expected 18 numbers, found 2");
  std::vector<float> negative(18);
  negative[12] = -1;
  EXPECT_EQ(store->Load(1, negative).message(),
            "state of feature 1: expected a sum of squares, found -1");
}

TEST(FactorStore, PeekingGivesABatchItsNumbersAndChangesNothing) {
  for (const Rule rule : kRules) {
    for (const bool normalize : {false, true}) {
      for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
        SCOPED_TRACE(RuleName(rule));
        UpdateOptions options = Options(rule, normalize);
        options.key_groups = {.groups = {{.rate = 0.5, .l1 = options.l1, .l2 = 0.01}},
                              .ranges = {{.first = kFeatures / 2, .group = 1}}};
        auto store = Make(num_features, options);
        Train(*store, 1, 60);
        const Entries before = EntriesOf(*store);
        Random random(5);
        std::vector<uint64_t> keys = RandomKeys(random);
        const auto is_new = [&](uint64_t key) { return !before.contains(key); };
        ASSERT_TRUE(std::any_of(keys.begin(), keys.end(), is_new));
        ASSERT_FALSE(std::all_of(keys.begin(), keys.end(), is_new));
        keys.push_back(io::kInterceptKey);
        std::vector<float> peeked((normalize ? 2 : 1) * keys.size() + (keys.size() - 1) * kWidth);
        std::vector<float> pulled(peeked.size());
        ASSERT_TRUE(store->PeekBatch(keys, peeked).ok());
        EXPECT_EQ(EntriesOf(*store), before);
        ASSERT_TRUE(store->PullBatch(1, keys, pulled).ok());
        EXPECT_EQ(peeked, pulled);
      }
    }
  }
}

// A shard's keys are not those of the whole model.
TEST(FactorStore, InitialFactorsAreThoseOfTheKeyInTheWholeModel) {
  const FactorShape factors = {.kind = ModelKind::kFm, .factors = kWidth, .init = 0.1, .seed = 3};
  auto shard = LocalStore::Create({.num_features = 100,
                                   .factors = factors,
                                   .whole_key = [](uint64_t key) { return 3 * key + 1; }},
                                  {.rule = Rule::kSgd});
  ASSERT_TRUE(shard.ok());
  const std::vector<uint64_t> keys = {7};
  std::vector<float> numbers(1 + kWidth), expected(kWidth);
  ASSERT_TRUE((*shard)->PeekBatch(keys, numbers).ok());
  InitialFactors(factors, 22, expected);
  EXPECT_EQ(std::vector<float>(numbers.begin() + 1, numbers.end()), expected);
}

TEST(FactorStore, FtrlNeedsAWayToKeepInitialFactors) {
  const ModelShape shape = {.num_features = 10,
                            .factors = {.kind = ModelKind::kFm, .factors = 8, .init = 0.1}};
  EXPECT_EQ(LocalStore::Create(shape, {.rule = Rule::kFtrl, .ftrl_beta = 0}).status().code(),
            Code::kInvalid);
  EXPECT_TRUE(
      LocalStore::Create(shape, {.rule = Rule::kFtrl, .factor_l2 = 1, .ftrl_beta = 0}).ok());
}

}  // namespace
}  // namespace millrace::sparse
