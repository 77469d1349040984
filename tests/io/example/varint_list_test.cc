// SPDX-License-Identifier: Apache-2.0
#include "io/example/varint_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/base/random.h"

namespace millrace::io {
namespace {

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Decodes `list` with random bytes behind it, which must not matter.
std::optional<std::vector<uint32_t>> Decode(CpuLevel level, const std::string& list,
                                            uint64_t seed) {
  Random random(seed);
  std::string padded = list;
  for (size_t i = 0; i < kVarintReadSlack; ++i) padded += static_cast<char>(random.Next());
  std::vector<uint32_t> out(list.size() + kVarintWriteSlack);
  const auto decoded = DecodeVarints32For(level)({padded.data(), list.size()}, out.data());
  if (!decoded) return std::nullopt;
  out.resize(decoded->count);
  uint32_t max = 0;
  for (const uint32_t v : out) max = std::max(max, v);
  EXPECT_EQ(decoded->max, max);
  return out;
}

std::optional<std::vector<uint64_t>> Decode64(const std::string& list) {
  std::vector<uint64_t> out(list.size());
  const auto count = DecodeVarints64(list, out.data());
  if (!count) return std::nullopt;
  out.resize(*count);
  return out;
}

class VarintList : public testing::TestWithParam<CpuLevel> {
  void SetUp() override {
    if (GetParam() > DetectCpuLevel())
      GTEST_SKIP() << "this processor lacks " << CpuLevelName(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, VarintList,
                         testing::Values(CpuLevel::kPlain, CpuLevel::kAvx2, CpuLevel::kAvx512),
                         [](const auto& param) { return std::string(CpuLevelName(param.param)); });

TEST_P(VarintList, RoundTripsEveryWidthAndCount) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<uint32_t> numbers(random.Below(150));
    std::string list;
    for (uint32_t& n : numbers) {
      n = static_cast<uint32_t>(random.Next() >> (36 + random.Below(28)));
      AppendVarint(n, list);
    }
    const auto decoded = Decode(GetParam(), list, seed);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(*decoded, numbers);
  }
}

TEST_P(VarintList, AgreesWithTheGeneralDecoderOnMutatedBytes) {
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string list;
    for (uint64_t i = random.Below(60); i > 0; --i)
      AppendVarint(random.Next() >> (36 + random.Below(28)), list);
    for (uint64_t i = random.Below(4); i > 0 && !list.empty(); --i) {
      list[random.Below(list.size())] ^= static_cast<char>(1 << random.Below(8));
    }
    const auto general = Decode64(list);
    const auto fast = Decode(GetParam(), list, seed);
    if (!general) {
      ASSERT_FALSE(fast.has_value());
      continue;
    }
    // The fast one may decline numbers of more than four bytes, and nothing else.
    size_t longest = 0, run = 0;
    for (const char c : list) {
      ++run;
      longest = std::max(longest, run);
      if (static_cast<unsigned char>(c) < 0x80) run = 0;
    }
    ASSERT_EQ(fast.has_value(), longest <= 4);
    if (!fast) continue;
    ASSERT_TRUE(std::equal(fast->begin(), fast->end(), general->begin(), general->end()));
  }
}

TEST_P(VarintList, EmptyListIsEmpty) {
  const auto decoded = Decode(GetParam(), "", 1);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(decoded->empty());
}

TEST(VarintList64, TenBytesAreTheMost) {
  std::string minus_one(9, '\xff');
  minus_one += '\x01';
  EXPECT_EQ(*Decode64(minus_one), std::vector<uint64_t>{~uint64_t{0}});
  EXPECT_FALSE(Decode64(std::string(10, '\x80') + '\x01').has_value());
  EXPECT_FALSE(Decode64("\x80").has_value());
}

}  // namespace
}  // namespace millrace::io
