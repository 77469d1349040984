// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/entry_codec.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace millrace::ps
