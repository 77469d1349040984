// SPDX-License-Identifier: Apache-2.0
#include "ps/server/gradient_sum.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"

namespace millrace::ps {
namespace {

TEST(GradientSum, EqualsAMapForAnyLists) {
  Random random(5);
  GradientSum sum;
  for (int round = 0; round < 2000; ++round) {
    sum.Clear();
    std::map<uint64_t, float> expected;
    const uint64_t range = 1 + random.Below(round % 2 == 0 ? 20 : 2000);  // many in common, or few
    for (uint64_t lists = random.Below(5); lists > 0; --lists) {
      std::set<uint64_t> drawn;
      for (uint64_t draws = random.Below(60); draws > 0; --draws) {
        drawn.insert((random.Below(range) << 40) + random.Below(range));
      }
      const std::vector<uint64_t> keys(drawn.begin(), drawn.end());
      std::vector<float> gradient;
      for (const uint64_t key : keys) {
        gradient.push_back(static_cast<float>(random.Uniform()) - 0.5f);
        const auto [place, is_new] = expected.emplace(key, gradient.back());
        if (!is_new) place->second += gradient.back();
      }
      sum.Add(keys, gradient);
    }
    ASSERT_EQ(sum.keys().size(), expected.size());
    size_t i = 0;
    for (const auto& [key, value] : expected) {
      ASSERT_EQ(sum.keys()[i], key);
      ASSERT_EQ(sum.gradient()[i], value);
      ++i;
    }
  }
}

TEST(GradientSum, KeepsTheLargestValueOfEachKey) {
  GradientSum sum;
  sum.Add(std::vector<uint64_t>{1, 5, 9}, std::vector<float>{1, 2, 3, 8, 16, 32});
  sum.Add(std::vector<uint64_t>{0, 5, 9, 11}, std::vector<float>{4, 5, 6, 7, 64, 64, 0.5f, 1});
  sum.Add(std::vector<uint64_t>{1}, std::vector<float>{0.5f, 2});
  EXPECT_EQ(std::vector<uint64_t>(sum.keys().begin(), sum.keys().end()),
            (std::vector<uint64_t>{0, 1, 5, 9, 11}));
  EXPECT_EQ(std::vector<float>(sum.gradient().begin(), sum.gradient().end()),
            (std::vector<float>{4, 1.5f, 7, 9, 7, 64, 8, 64, 32, 1}));
}

// The intercept has no block.
TEST(GradientSum, SumsTheBlocksOfEachFeatureFromLeftToRight) {
  Random random(7);
  GradientSum sum;
  for (const size_t width : {4, 12}) {
    for (int round = 0; round < 300; ++round) {
      sum.Clear();
      std::map<uint64_t, std::vector<float>> expected;
      std::vector<std::vector<uint64_t>> keys(1 + random.Below(4));
      std::vector<std::vector<float>> blocks(keys.size());
      for (size_t list = 0; list < keys.size(); ++list) {
        for (uint64_t key = 0; key < 20; ++key) {
          if (random.Below(3) > 0) continue;
          keys[list].push_back(key);
          std::vector<float>& all = expected[key];
          const bool is_new = all.empty();
          all.resize(width);
          for (float& x : all) {
            blocks[list].push_back(static_cast<float>(random.Uniform()) - 0.5f);
            x = is_new ? blocks[list].back() : x + blocks[list].back();
          }
        }
        if (random.Below(2) == 0) keys[list].push_back(io::kInterceptKey);
        sum.Add(keys[list], std::vector<float>(keys[list].size(), 1.0f), blocks[list]);
      }
      sum.SumBlocks(width);
      std::vector<float> all;
      for (const auto& [key, block] : expected) all.insert(all.end(), block.begin(), block.end());
      ASSERT_EQ(io::FeatureKeys(sum.keys()).size(), expected.size());
      const std::span<float> found = sum.gradient().subspan(sum.keys().size());
      ASSERT_EQ(std::vector<float>(found.begin(), found.end()), all);
    }
  }
}

}  // namespace
}  // namespace millrace::ps
