#include "ps/server/key_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/random.h"

namespace millrace::ps {
namespace {

using Keys = std::vector<uint64_t>;
using Places = std::vector<std::pair<uint32_t, uint32_t>>;

Keys RandomKeys(Random& random, size_t most, uint64_t below) {
  Keys keys(random.Below(most + 1));
  for (uint64_t& key : keys) key = random.Below(below);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

Places Naive(const Keys& left, const Keys& right) {
  Places places;
  for (uint32_t i = 0; i < left.size(); ++i) {
    for (uint32_t j = 0; j < right.size(); ++j) {
      if (left[i] == right[j]) places.emplace_back(i, j);
    }
  }
  return places;
}

Places Found(KeyOverlap& overlap, const Keys& left, const Keys& right) {
  overlap.Find(left, right);
  Places places;
  for (size_t i = 0; i < overlap.left_places().size(); ++i) {
    places.emplace_back(overlap.left_places()[i], overlap.right_places()[i]);
  }
  EXPECT_EQ(overlap.right_places().size(), places.size());
  return places;
}

TEST(KeyOverlap, IsWhatANaiveSearchFinds) {
  Random random(1);
  KeyOverlap overlap;  // one for all: its memory is used again
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE(i);
    const uint64_t below = 1 + random.Below(i % 2 ? 50 : 2000);
    const Keys left = RandomKeys(random, 150, below), right = RandomKeys(random, 150, below);
    ASSERT_EQ(Found(overlap, left, right), Naive(left, right));
  }
}

TEST(KeyOverlap, EmptyEqualAndOneSidedLists) {
  KeyOverlap overlap;
  const Keys none, few = {1, 5, ~uint64_t{0}}, many = {2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(Found(overlap, none, many), Places());
  EXPECT_EQ(Found(overlap, many, none), Places());
  EXPECT_EQ(Found(overlap, none, none), Places());
  EXPECT_EQ(Found(overlap, few, few), (Places{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(Found(overlap, few, many), (Places{{1, 3}}));
  EXPECT_EQ(Found(overlap, many, few), (Places{{3, 1}}));
}

}  // namespace
}  // namespace millrace::ps
