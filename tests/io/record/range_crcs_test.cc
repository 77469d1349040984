// SPDX-License-Identifier: Apache-2.0
#include "io/record/range_crcs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "io/base/crc32c.h"
#include "io/base/random.h"

namespace millrace::io {
namespace {

TEST(RangeCrcs, EveryRangeHasTheCrcOfItsBytes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string stream(20000, ' ');
    for (char& c : stream) c = static_cast<char>(random.Next());
    RangeCrcs crcs;
    const uint64_t longest = 1 + random.Below(5000);
    for (size_t begin = 0; begin < stream.size(); begin += 1 + random.Below(1 + longest / 3)) {
      const size_t size = std::min(random.Below(longest), stream.size() - begin);
      ASSERT_EQ(crcs.Crc(begin, stream.data() + begin, size), Crc32c(stream.data() + begin, size))
          << begin << " + " << size;
    }
  }
}

TEST(RangeCrcs, CoversWhatWasSeenSinceTheLastGap) {
  const std::string bytes(1000, 'x');
  RangeCrcs crcs;
  EXPECT_FALSE(crcs.Covers(0));
  crcs.Crc(5000, bytes.data(), 1000);
  EXPECT_TRUE(crcs.Covers(5999));
  EXPECT_FALSE(crcs.Covers(6000));
  crcs.Crc(7000, bytes.data(), 10);
  EXPECT_TRUE(crcs.Covers(7009));
  EXPECT_FALSE(crcs.Covers(7010));
}

}  // namespace
}  // namespace millrace::io
