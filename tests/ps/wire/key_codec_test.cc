// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/key_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"

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
      ASSERT_TRUE(decoder.Decode(bytes, {.limit = below}, decoded).ok());
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
    EXPECT_FALSE(decoder.Decode(bytes.substr(0, size), {}, decoded).ok()) << size;
  }
  EXPECT_FALSE(decoder.Decode(bytes + '\0', {}, decoded).ok());
}

TEST(KeyCodec, KeysOutOfOrderOrOutOfRangeAreCorrupt) {
  KeyDecoder decoder;
  PodVector<uint64_t> decoded;
  EXPECT_FALSE(decoder.Decode({"\x04\x05\x00", 3}, {}, decoded).ok());          // 5, 5
  const std::string huge = "\x04\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";  // 5, 5 + 2^64 - 1
  EXPECT_FALSE(decoder.Decode(huge, {}, decoded).ok());
  EXPECT_TRUE(decoder.Decode("\x04\x05\x01", {.limit = 7}, decoded).ok());
  const Status outside = decoder.Decode("\x04\x05\x01", {.limit = 6}, decoded);
  EXPECT_EQ(outside.message(), "key list: expected keys below 6, found 6");
  // A count far above what the bytes can hold is refused before anything is allocated for it.
  EXPECT_FALSE(decoder.Decode("\xff\xff\xff\xff\x0f\x01", {}, decoded).ok());
}

TEST(KeyCodec, InterceptComesLastAndCostsNoByte) {
  KeyDecoder decoder;
  PodVector<uint64_t> decoded;
  for (const std::vector<uint64_t>& features :
       {std::vector<uint64_t>{}, {5, 6}, {5, uint64_t{1} << 40, io::kInterceptKey - 1}}) {
    std::vector<uint64_t> keys = features;
    std::string without, with;
    EncodeKeys(keys, without);
    keys.push_back(io::kInterceptKey);
    EncodeKeys(keys, with);
    EXPECT_EQ(with.size(), without.size());
    ASSERT_TRUE(decoder.Decode(with, {}, decoded).ok());
    EXPECT_TRUE(std::equal(keys.begin(), keys.end(), decoded.begin(), decoded.end()));
    EXPECT_EQ(decoder.Decode(with, {.intercept = false}, decoded).message(),
              "key list: expected no intercept, which this shard does not have");
  }
  // As a difference to the key before it.
  const std::string spelled = "\x04\x05\xfa\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  EXPECT_EQ(decoder.Decode(spelled, {}, decoded).message(),
            "key list: expected features, found the intercept");
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
