#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "io/base/random.h"
#include "ps/sharding.h"
#include "ps/wire/endpoint.h"
#include "ps/wire/entry_codec.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/key_codec.h"
#include "ps/worker/key_split.h"

namespace millrace::ps {
namespace {

std::vector<uint64_t> RandomKeys(Random& random, size_t count, uint64_t below) {
  std::set<uint64_t> keys;
  while (keys.size() < count) keys.insert(below == 0 ? random.Next() : random.Below(below));
  return {keys.begin(), keys.end()};
}

TEST(KeyCodec, ListsComeBackAsTheyWere) {
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

TEST(KeyCodec, CutListsAndStrayBytesAreCorrupt) {
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

TEST(FloatCodec, PlainAndPackedNumbersComeBackBitForBit) {
  FloatCodec codec;
  Random random(3);
  for (const size_t count : {0, 1, 7, 1000}) {
    std::vector<float> numbers(count);
    for (float& x : numbers) x = static_cast<float>(random.Uniform() - 0.5);
    if (count > 2) numbers[1] = std::numeric_limits<float>::infinity();
    for (const bool zstd : {false, true}) {
      std::string bytes;
      ASSERT_TRUE(codec.Encode(numbers, {.zstd = zstd}, bytes).ok());
      std::vector<float> decoded(count);
      ASSERT_TRUE(codec.Decode(bytes, decoded).ok());
      EXPECT_EQ(decoded, numbers);
    }
  }
}

TEST(FloatCodec, HalvesAreTheNearestOnes) {
  FloatCodec codec;
  Random random(4);
  for (int i = 0; i < 10000; ++i) {
    const auto number = static_cast<float>((random.Uniform() - 0.5) * std::exp2(random.Below(40)));
    std::string bytes;
    float decoded = 0;
    ASSERT_TRUE(codec.Encode({&number, 1}, {.bf16 = true, .zstd = i % 2 == 0}, bytes).ok());
    ASSERT_TRUE(codec.Decode(bytes, {&decoded, 1}).ok());
    EXPECT_LE(std::abs(decoded - number), std::abs(number) / 256);
    EXPECT_EQ(std::bit_cast<uint32_t>(decoded) & 0xffff, 0u);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::string bytes;
  float decoded = 0;
  ASSERT_TRUE(codec.Encode({&nan, 1}, {.bf16 = true}, bytes).ok());
  ASSERT_TRUE(codec.Decode(bytes, {&decoded, 1}).ok());
  EXPECT_TRUE(std::isnan(decoded));
}

TEST(FloatCodec, AnotherCountOrFormatIsCorrupt) {
  FloatCodec codec;
  const std::vector<float> numbers(10, 1.5f);
  std::vector<float> decoded(9);
  for (const bool zstd : {false, true}) {
    std::string bytes;
    ASSERT_TRUE(codec.Encode(numbers, {.zstd = zstd}, bytes).ok());
    EXPECT_FALSE(codec.Decode(bytes, decoded).ok());
    for (size_t size = 0; size < bytes.size(); ++size) {
      std::vector<float> ten(10);
      EXPECT_FALSE(codec.Decode(bytes.substr(0, size), ten).ok());
    }
  }
  EXPECT_FALSE(codec.Decode("\x04", {}).ok());
}

TEST(EntryCodec, EntriesComeBackAndCutOnesAreCorrupt) {
  const EntryList entries = {
      {.key = 0, .weight = 1}, {.key = 5, .weight = -2}, {.key = ~uint64_t{0}, .weight = 0.5f}};
  std::string bytes;
  EncodeEntries(entries, bytes);
  EntryList decoded;
  ASSERT_TRUE(DecodeEntries(bytes, decoded).ok());
  ASSERT_EQ(decoded.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded[i].key, entries[i].key);
    EXPECT_EQ(decoded[i].weight, entries[i].weight);
  }
  for (size_t size = 1; size < bytes.size(); ++size) {
    const bool whole = size == 5 || size == 10;  // one or two entries
    EXPECT_EQ(DecodeEntries(bytes.substr(0, size), decoded).ok(), whole) << size;
  }
}

TEST(Sharding, EveryKeyHasOnePlaceAndComesBack) {
  for (size_t shards = 1; shards <= 16; ++shards) {
    const uint64_t num_features = 1003;
    const Sharding sharding(num_features, shards);
    std::set<std::pair<size_t, uint64_t>> places;
    for (uint64_t key = 0; key < num_features; ++key) {
      const Sharding::Place place = sharding.Of(key);
      ASSERT_LT(place.shard, shards);
      ASSERT_LT(place.local, sharding.local_features());
      ASSERT_EQ(sharding.KeyOf(place.shard, place.local), key);
      places.emplace(place.shard, place.local);
    }
    EXPECT_EQ(places.size(), num_features);
  }
}

// Strides are what features of a fixed layout have; a shard by remainder alone would get all of
// them.
TEST(Sharding, StridesDoNotFavourAShard) {
  for (const size_t shards : {2, 4, 8, 16}) {
    for (const uint64_t num_features : {uint64_t{1} << 30, uint64_t{0}}) {
      const Sharding sharding(num_features, shards);
      std::vector<double> counts(shards);
      for (uint64_t i = 0; i < 100000; ++i) ++counts[sharding.Of(i * 1024).shard];
      const double mean = 100000.0 / static_cast<double>(shards);
      EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1.1 * mean) << shards;
    }
  }
}

TEST(KeySplit, PartsCoverTheBatch) {
  Random random(5);
  for (const size_t shards : {1, 2, 5}) {
    const Sharding sharding(100000, shards);
    const std::vector<uint64_t> keys = RandomKeys(random, 500, 100000);
    KeySplit split;
    split.Assign(sharding, 7, keys);
    EXPECT_TRUE(split.IsBatch(7));
    std::vector<float> numbers(keys.size()), back(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) numbers[i] = static_cast<float>(keys[i]);
    size_t total = 0;
    for (size_t s = 0; s < shards; ++s) {
      KeyDecoder decoder;
      PodVector<uint64_t> locals;
      ASSERT_TRUE(decoder.Decode(split.part(s).encoded, sharding.local_features(), locals).ok());
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

TEST(HostPort, AddressesAreTakenApart) {
  EXPECT_EQ(ParseHostPort("a:7000")->port, 7000);
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  for (const char* bad : {"", "a", ":1", "a:", "a:x", "a:70000", "a:-1", "a:1x"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace millrace::ps
