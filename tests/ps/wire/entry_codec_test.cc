// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/entry_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::ps {
namespace {

TEST(EntryCodec, EntriesRoundTripAndTruncatedOnesAreCorrupt) {
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

TEST(EntryCodec, FactorsFollowTheWeightsOfFeaturesThatHaveThem) {
  const EntryList entries = {
      {.key = 3, .weight = 1}, {.key = 9, .weight = 0}, {.key = ~uint64_t{0}, .weight = 0.5f}};
  const std::vector<float> factors = {0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0};
  std::string bytes;
  EncodeEntries(entries, bytes, factors);
  EXPECT_EQ(bytes.size(), (1 + 4 + 1) + (1 + 4 + 1 + 16) + (10 + 4 + 1));
  EntryList decoded;
  std::vector<float> found;
  ASSERT_TRUE(DecodeEntries(bytes, decoded, 4, found).ok());
  ASSERT_EQ(decoded.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded[i].key, entries[i].key);
    EXPECT_EQ(decoded[i].weight, entries[i].weight);
  }
  EXPECT_EQ(found, factors);
  for (size_t size = 1; size < bytes.size(); ++size) {
    const bool whole = size == 6 || size == 28;  // one or two entries
    EXPECT_EQ(DecodeEntries(bytes.substr(0, size), decoded, 4, found).ok(), whole) << size;
  }
  bytes[5] = 2;
  EXPECT_EQ(DecodeEntries(bytes, decoded, 4, found).message(),
            "entries: expected 0 or 1 before the factors");
}

}  // namespace
}  // namespace millrace::ps
