// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/key_split.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "io/base/random.h"
#include "ps/wire/key_codec.h"

namespace millrace::ps {
namespace {

std::vector<uint64_t> RandomKeys(Random& random, size_t count, uint64_t below) {
  std::set<uint64_t> keys;
  while (keys.size() < count) keys.insert(below == 0 ? random.Next() : random.Below(below));
  return {keys.begin(), keys.end()};
}

TEST(KeySplit, PartsCoverTheBatch) {
  Random random(5);
  for (const size_t shards : {1, 2, 5}) {
    const Sharding sharding(100000, shards);
    std::vector<uint64_t> keys = RandomKeys(random, 500, 100000);
    keys.push_back(io::kInterceptKey);
    KeySplit split;
    split.Assign(sharding, 7, keys);
    EXPECT_TRUE(split.IsBatch(7));
    std::vector<float> numbers(keys.size()), back(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) numbers[i] = static_cast<float>(keys[i]);
    size_t total = 0;
    for (size_t s = 0; s < shards; ++s) {
      KeyDecoder decoder;
      PodVector<uint64_t> locals;
      const KeyBounds bounds = {.limit = sharding.local_features(), .intercept = s == 0};
      ASSERT_TRUE(decoder.Decode(split.part(s).encoded, bounds, locals).ok());
      PodVector<float> part;
      split.Scatter(s, numbers, part);
      ASSERT_EQ(part.size(), locals.size());
      for (size_t i = 0; i < locals.size(); ++i) {
        EXPECT_EQ(part[i], static_cast<float>(sharding.KeyOf(s, locals[i])));
      }
      split.Gather(s, part, back);
      total += locals.size();
    }
    EXPECT_EQ(total, keys.size());
    EXPECT_EQ(back, numbers);
  }
}

TEST(KeySplit, CopiesSeveralNumbersOfEachKey) {
  Random random(6);
  for (const size_t shards : {1, 3}) {
    const std::vector<uint64_t> keys = RandomKeys(random, 200, 10000);
    KeySplit split;
    split.Assign(Sharding(10000, shards), 1, keys);
    std::vector<float> numbers(2 * keys.size()), back(2 * keys.size()), first(keys.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    for (size_t s = 0; s < shards; ++s) {
      PodVector<float> part;
      split.Scatter(s, numbers, part);
      ASSERT_EQ(part.size(), 2 * split.part(s).keys);
      split.Gather(s, part, back);
      split.Gather(s, part, first);
    }
    EXPECT_EQ(back, numbers);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), numbers.begin()));
  }
}

TEST(KeySplit, CopiesTheBlocksOfFeaturesBehindTheirNumbers) {
  Random random(8);
  constexpr size_t kWidth = 4;
  for (const size_t shards : {1, 3}) {
    const Sharding sharding(10000, shards);
    std::vector<uint64_t> keys = RandomKeys(random, 200, 10000);
    keys.push_back(io::kInterceptKey);
    KeySplit split;
    split.Assign(sharding, 1, keys);
    EXPECT_EQ(split.features(), 200u);
    std::vector<float> numbers(2 * keys.size() + kWidth * 200), back(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    size_t features = 0;
    for (size_t s = 0; s < shards; ++s) {
      PodVector<float> part;
      split.Scatter(s, numbers, part, kWidth);
      const KeySplit::Part& of = split.part(s);
      ASSERT_EQ(part.size(), 2 * of.keys + kWidth * of.features);
      EXPECT_EQ(of.keys - of.features, s == 0 ? 1u : 0u);
      for (size_t i = 0; i < of.features; ++i) {
        const size_t at = shards == 1 ? i : of.positions[i];
        for (size_t f = 0; f < kWidth; ++f) {
          EXPECT_EQ(part[2 * of.keys + i * kWidth + f], numbers[2 * keys.size() + at * kWidth + f]);
        }
      }
      features += of.features;
      split.Gather(s, part, back, kWidth);
    }
    EXPECT_EQ(features, 200u);
    EXPECT_EQ(back, numbers);
  }
}

}  // namespace
}  // namespace millrace::ps
