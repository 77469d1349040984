// SPDX-License-Identifier: Apache-2.0
#include "ps/server/reply_cache.h"

#include <gtest/gtest.h>

#include <memory>

namespace millrace::ps {
namespace {

SharedKeys ListOf(uint64_t signature, size_t keys = 1) {
  auto list = std::make_shared<KeyList>();
  list->signature = signature;
  list->keys.resize(keys);
  return list;
}

ReplyCache::Reply ReplyOf(uint64_t sequence, uint64_t signature) {
  return {.sequence = sequence,
          .step = 10 * sequence,
          .list = ListOf(signature),
          .weights = std::make_shared<PlainNumbers>()};
}

TEST(ReplyCache, ReplyIsFoundByItsSequenceAndItsList) {
  ReplyCache cache;
  EXPECT_EQ(cache.Find(0, 0), nullptr);
  const ReplyCache::Reply first = ReplyOf(1, 100), second = ReplyOf(1, 200);
  cache.Add(first);
  cache.Add(second);
  for (const ReplyCache::Reply& reply : {first, second}) {
    const ReplyCache::Reply* found = cache.Find(1, reply.list->signature);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->weights, reply.weights);
    EXPECT_EQ(found->step, 10u);
    EXPECT_EQ(cache.FindList(reply.list->signature), reply.list);
  }
  EXPECT_EQ(cache.Find(2, 100), nullptr);
  EXPECT_EQ(cache.Find(1, 300), nullptr);
  EXPECT_EQ(cache.FindList(300), nullptr);
}

TEST(ReplyCache, OldestReplyIsEvictedWithItsListUnlessTheListIsKept) {
  ReplyCache cache;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    cache.Add(ReplyOf(sequence, 100 * sequence));
  }
  cache.KeepList(cache.FindList(200));
  EXPECT_NE(cache.Find(1, 100), nullptr);
  cache.Add(ReplyOf(4, 400));
  EXPECT_EQ(cache.Find(1, 100), nullptr);
  EXPECT_EQ(cache.FindList(100), nullptr);
  EXPECT_NE(cache.Find(2, 200), nullptr);
  cache.Add(ReplyOf(5, 500));
  EXPECT_EQ(cache.Find(2, 200), nullptr);
  ASSERT_NE(cache.FindList(200), nullptr);
  EXPECT_EQ(cache.FindList(200)->signature, 200u);
}

// The memory of a resized PodVector is not touched, so these lists cost address space only.
TEST(ReplyCache, KeptListsHaveABound) {
  constexpr size_t kKeys = 8 << 20;
  ReplyCache cache;
  for (int repeats = 0; repeats < 3; ++repeats) cache.KeepList(ListOf(1, kKeys));
  for (uint64_t signature = 2; signature <= 5; ++signature) {
    cache.KeepList(ListOf(signature, kKeys));
  }
  EXPECT_NE(cache.FindList(1), nullptr);
  EXPECT_NE(cache.FindList(4), nullptr) << "a list that is kept already counts once";
  EXPECT_EQ(cache.FindList(5), nullptr);
  cache.KeepList(ListOf(6, 0));
  EXPECT_NE(cache.FindList(6), nullptr);
}

}  // namespace
}  // namespace millrace::ps
