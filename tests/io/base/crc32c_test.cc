// SPDX-License-Identifier: Apache-2.0
#include "io/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/base/random.h"

namespace millrace::io {
namespace {

// Bit by bit, straight from the polynomial.
uint32_t NaiveCrc32c(const std::string& data) {
  uint32_t crc = 0xffffffffu;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

std::vector<CpuLevel> LevelsHere() {
  std::vector<CpuLevel> levels;
  for (const CpuLevel level :
       {CpuLevel::kPlain, CpuLevel::kSse42, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level <= DetectCpuLevel()) levels.push_back(level);
  }
  return levels;
}

TEST(Crc32c, HasThePublishedCheckValue) {
  for (const CpuLevel level : LevelsHere())
    EXPECT_EQ(internal::Crc32cFor(level)("123456789", 9, 0), 0xe3069283u);
}

// The iSCSI standard (RFC 3720, B.4) gives these.
TEST(Crc32c, MatchesTheIscsiVectors) {
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
}

TEST(Crc32c, EveryLevelEqualsTheBitwiseOneAtEveryLengthAndAlignment) {
  Random random(7);
  std::string noise;
  for (int i = 0; i < 9000; ++i) noise += static_cast<char>(random.Next());
  for (size_t size = 0; size < 800; ++size) {
    const size_t begin = size % 13;
    const uint32_t expected = NaiveCrc32c(noise.substr(begin, size));
    for (const CpuLevel level : LevelsHere()) {
      ASSERT_EQ(internal::Crc32cFor(level)(noise.data() + begin, size, 0), expected)
          << CpuLevelName(level) << " size " << size;
    }
  }
  for (const size_t size : {6143u, 6144u, 6145u, 9000u}) {
    for (const CpuLevel level : LevelsHere()) {
      EXPECT_EQ(internal::Crc32cFor(level)(noise.data(), size, 0),
                NaiveCrc32c(noise.substr(0, size)));
    }
  }
}

TEST(Crc32c, PartsGiveTheCrcOfTheWhole) {
  const std::string text =
      "the quick brown fox jumps over the lazy dog, and again, and again, until the block is full";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(text.data(), cut);
    EXPECT_EQ(Crc32c(text.data() + cut, text.size() - cut, first),
              Crc32c(text.data(), text.size()));
    const uint32_t second = Crc32c(text.data() + cut, text.size() - cut);
    EXPECT_EQ(CombineCrc32c(first, second, text.size() - cut), Crc32c(text.data(), text.size()));
  }
}

TEST(Crc32c, CombinesOverLongDistances) {
  const std::string a = "head";
  for (const size_t size : {size_t{1} << 16, (size_t{1} << 20) - 1, (size_t{3} << 20) + 5}) {
    const std::string b(size, 'b');
    EXPECT_EQ(CombineCrc32c(Crc32c(a.data(), a.size()), Crc32c(b.data(), size), size),
              Crc32c((a + b).data(), a.size() + size));
  }
}

TEST(Crc32c, MaskIsTheRotationAndOffsetOfTfRecord) {
  EXPECT_EQ(MaskCrc(0), kCrcMaskDelta);
  EXPECT_EQ(MaskCrc(0x00008000u), kCrcMaskDelta + 1);
}

}  // namespace
}  // namespace millrace::io
