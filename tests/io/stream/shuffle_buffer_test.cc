// SPDX-License-Identifier: Apache-2.0
#include "io/stream/shuffle_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace millrace::io {
namespace {

const std::string kPath = "some file";

// Feeds `count` records whose numbers are their content, ten a block, and returns the order in
// which they come out.
std::vector<int> Shuffle(int count, size_t capacity, size_t min, uint64_t seed,
                         size_t record_bytes = sizeof(int), uint64_t* most_held = nullptr) {
  BlockPool pool;
  ShuffleBuffer buffer(capacity, min);
  buffer.Start(seed);
  std::vector<int> order;
  int next = 0;
  PooledBlock* block = nullptr;
  size_t in_block = 0;
  while (true) {
    while (buffer.Wanted() > 0) {
      if (next == count) {
        buffer.End();
        break;
      }
      if (!block) {
        block = &pool.Take();
        block->path = &kPath;
        block->framing = Framing::kLines;
        block->block.base_offset = static_cast<uint64_t>(next) * record_bytes;
        block->block.bytes.Resize(10 * record_bytes);
        for (uint32_t i = 0; i < 10; ++i) {
          block->block.records.push_back(
              {static_cast<uint32_t>(i * record_bytes), static_cast<uint32_t>(record_bytes)});
        }
        block->live = block->total = 10;
        pool.CountHeld(*block);
        in_block = 0;
        buffer.Compact(pool);
      }
      char* at = block->block.bytes.data() + in_block * record_bytes;
      std::memcpy(at, &next, sizeof next);
      buffer.Add({at, static_cast<uint32_t>(record_bytes), block->number});
      ++next;
      if (++in_block == 10) block = nullptr;
    }
    if (most_held) *most_held = std::max(*most_held, pool.held_bytes());
    if (!buffer.CanDraw()) break;
    const RecordRef ref = buffer.Draw();
    int number;
    std::memcpy(&number, ref.data, sizeof number);
    EXPECT_EQ(pool.Origin(ref).offset, static_cast<uint64_t>(number) * record_bytes);
    EXPECT_EQ(pool.Origin(ref).path, &kPath);
    order.push_back(number);
    pool.Release(ref);
  }
  EXPECT_TRUE(buffer.Finished());
  return order;
}

TEST(ShuffleBuffer, DeliversEachRecordOnceInAnOrderOfTheSeed) {
  const auto order = Shuffle(1000, 100, 50, 1);
  EXPECT_EQ(order, Shuffle(1000, 100, 50, 1));
  EXPECT_NE(order, Shuffle(1000, 100, 50, 2));
  const std::set<int> seen(order.begin(), order.end());
  EXPECT_EQ(order.size(), 1000u);
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(ShuffleBuffer, CapacityOfOneKeepsTheOrder) {
  const auto order = Shuffle(100, 1, 0, 1);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order, Shuffle(100, 0, 0, 1));
}

TEST(ShuffleBuffer, NoRecordComesEarlierThanTheCapacityAllows) {
  const auto order = Shuffle(1000, 100, 50, 3);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_LE(order[i], static_cast<int>(i) + 99);
}

// With everything in the buffer, each record is equally likely at each place.
TEST(ShuffleBuffer, IsUniformWhenAllFits) {
  std::vector<int> first(5);
  for (uint64_t seed = 0; seed < 5000; ++seed)
    ++first[static_cast<size_t>(Shuffle(5, 10, 5, seed)[0])];
  for (const int count : first) EXPECT_NEAR(count, 1000, 120);
}

// Without gathering, blocks of ten records held for their last one would keep several times the
// buffer's bytes.
TEST(ShuffleBuffer, MemoryStaysNearWhatTheBufferNeeds) {
  constexpr size_t kRecordBytes = 20000;
  constexpr size_t kCapacity = 2000;
  uint64_t most_held = 0;
  const auto order = Shuffle(30000, kCapacity, kCapacity / 2, 1, kRecordBytes, &most_held);
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 30000u);
  EXPECT_LT(most_held, 4 * kCapacity * kRecordBytes + (32u << 20));
}

}  // namespace
}  // namespace millrace::io
