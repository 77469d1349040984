// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/key_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/random.h"

namespace millrace::ps {
namespace {

std::vector<uint64_t> RandomKeys(Random& random, size_t count, uint64_t below) {
  std::set<uint64_t> keys;
  while (keys.size() < count) keys.insert(below == 0 ? random.Next() : random.Below(below));
  return {keys.begin(), keys.end()};
}

TEST(KeyCodec, ListsRoundTrip) {
  KeyDecoder decoder;
  Random random(1);
  for (const uint64_t below : {uint64_t{300}, uint64_t{33762578}, uint64_t{1} << 40, uint64_t{0}}) {
    for (const size_t count : {0, 1, 2, 100, 255, 256}) {
      const std::vector<uint64_t> keys = RandomKeys(random, count, below);
      std::string bytes;
      EncodeKeys(keys, bytes);
      PodVector<uint64_t> decoded;
      ASSERT_TRUE(decoder.Decode(bytes, below, decoded).ok());
      EXPECT_TRUE(std::equal(keys.begin(), keys.end(), decoded.begin(), decoded.end()));
    }
  }
}

TEST(KeyCodec, TruncatedListsAndExtraBytesAreCorrupt) {
  KeyDecoder decoder;
  Random random(2);
  const std::vector<uint64_t> keys = RandomKeys(random, 200, 33762578);
  std::string bytes;
  EncodeKeys(keys, bytes);
  PodVector<uint64_t> decoded;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decoder.Decode(bytes.substr(0, size), 0, decoded).ok()) << size;
  }
  EXPECT_FALSE(decoder.Decode(bytes + '\0', 0, decoded).ok());
}

TEST(KeyCodec, KeysOutOfOrderOrOutOfRangeAreCorrupt) {
  KeyDecoder decoder;
  PodVector<uint64_t> decoded;
  EXPECT_FALSE(decoder.Decode({"\x02\x05\x00", 3}, 0, decoded).ok());           // 5, 5
  const std::string huge = "\x02\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";  // 5, 5 + 2^64 - 1
  EXPECT_FALSE(decoder.Decode(huge, 0, decoded).ok());
  EXPECT_TRUE(decoder.Decode("\x02\x05\x01", 7, decoded).ok());
  const Status outside = decoder.Decode("\x02\x05\x01", 6, decoded);
  EXPECT_EQ(outside.message(), "key list: expected keys below 6, found 6");
  // A count far above what the bytes can hold is refused before anything is allocated for it.
  EXPECT_FALSE(decoder.Decode("\xff\xff\xff\xff\x0f\x01", 0, decoded).ok());
}

TEST(KeyCodec, SignaturesTellListsApart) {
  std::set<uint64_t> signatures;
  std::string bytes;
  for (uint64_t key = 0; key < 20000; ++key) {
    EncodeKeys(std::vector<uint64_t>{key, key + 1 + key % 7}, bytes);
    signatures.insert(ListSignature(bytes));
  }
  EXPECT_EQ(signatures.size(), 20000u);
  EXPECT_EQ(signatures.count(0), 0u);
}

// Steps of all lengths on the wire, and those next to where another byte begins.
uint64_t RandomStep(Random& random, int max_bytes) {
  const auto bytes = static_cast<int>(1 + random.Below(static_cast<uint64_t>(max_bytes)));
  const uint64_t limit = uint64_t{1} << (7 * bytes);
  return random.Below(4) == 0 ? limit - 1 : 1 + random.Below(limit - 1);
}

TEST(KeyKernels, AllWriteTheSameBytesAsThePlainOne) {
  const PutKeysFunction plain = PutKeysFor(CpuLevel::kPlain);
  const PutKeysFunction fast = PutKeysFor(DetectCpuLevel());
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    // Mostly short steps, so that the rounds without a long one are seen as well.
    const int max_bytes = seed % 4 == 0 ? 6 : 1 + static_cast<int>(seed % 4);
    const uint64_t last = random.Below(1000);
    std::vector<uint64_t> keys(random.Below(100));
    uint64_t key = last;
    for (uint64_t& k : keys) k = key += RandomStep(random, max_bytes);
    std::vector<char> a(keys.size() * kMaxKeyBytes + kKeyWriteSlack), b(a);
    const std::string_view written(a.data(),
                                   static_cast<size_t>(plain(keys, last, a.data()) - a.data()));
    const std::string_view same(b.data(),
                                static_cast<size_t>(fast(keys, last, b.data()) - b.data()));
    EXPECT_EQ(written, same);
  }
}

TEST(KeyKernels, AllSumStepsAsThePlainOneDoesAndSeeStandstills) {
  const SumStepsFunction plain = SumStepsFor(CpuLevel::kPlain);
  const SumStepsFunction fast = SumStepsFor(DetectCpuLevel());
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<uint32_t> steps(random.Below(70));
    for (uint32_t& step : steps) step = static_cast<uint32_t>(RandomStep(random, 4));
    if (seed % 3 == 0 && !steps.empty()) steps[random.Below(steps.size())] = 0;
    std::vector<uint64_t> a(steps.size()), b(steps.size());
    EXPECT_EQ(plain(steps, a.data()), fast(steps, b.data()));
    EXPECT_EQ(a, b);
  }
  const std::vector<uint32_t> first_zero = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint64_t> keys(first_zero.size());
  EXPECT_TRUE(fast(first_zero, keys.data())) << "the first key may be 0";
}

}  // namespace
}  // namespace millrace::ps
