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
    for (const uint64_t count : {0, 1, 2, 100, 255, 256, 512, 513, 1300}) {
      if (below > 0 && count > below) continue;
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

}  // namespace
}  // namespace millrace::ps
