// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/float_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "io/base/random.h"

namespace millrace::ps {
namespace {

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

}  // namespace
}  // namespace millrace::ps
