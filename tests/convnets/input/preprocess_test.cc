// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/preprocess.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace::convnets {
namespace {

// A ramp from left to right.
RgbImage Ramp(size_t width, size_t height) {
  RgbImage image{width, height, std::vector<uint8_t>(width * height * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(i / 3 % width);
  }
  return image;
}

TEST(FitImage, ResizesBilinearlyAndSubtractsTheMean) {
  ImageOptions options;
  options.shape = {3, 4, 8};
  options.mean = {10, 20, 30};
  options.scale = 2;
  std::vector<float> pixels(options.shape.size());
  FitImage(Ramp(64, 32), options, 0, pixels);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t x = 0; x < 8; ++x) {
      const double place = (static_cast<double>(x) + 0.5) * 8 - 0.5;
      EXPECT_NEAR(pixels[c * 32 + x], (place - 10.0 * static_cast<double>(c + 1)) / 2, 1e-4);
    }
  }
}

TEST(FitImage, CutsOutTheMiddleOrARandomPart) {
  ImageOptions options;
  options.shape = {1, 8, 8};
  options.scale = 1;
  options.resize = 16;
  std::vector<float> pixels(64), other(64);
  FitImage(Ramp(32, 16), options, 1, pixels);
  EXPECT_NEAR(pixels[0], 12, 0.01);  // columns 12 to 19 of 32
  EXPECT_NEAR(pixels[7], 19, 0.01);
  options.augment = true;
  bool rising = false, falling = false;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    FitImage(Ramp(32, 16), options, seed, pixels);
    FitImage(Ramp(32, 16), options, seed, other);
    EXPECT_EQ(pixels, other);
    (pixels[7] > pixels[0] ? rising : falling) = true;
  }
  EXPECT_TRUE(rising && falling) << "mirrored now and then";
}

TEST(Pixels, AllInstructionSetsGiveTheSameBits) {
  std::vector<uint8_t> bytes(1001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  std::vector<float> plain(bytes.size()), best(bytes.size());
  BytesToFloats(bytes.data(), bytes.size(), 33.3f, 1 / 58.0f, plain.data(), CpuLevel::kPlain);
  BytesToFloats(bytes.data(), bytes.size(), 33.3f, 1 / 58.0f, best.data());
  EXPECT_EQ(plain, best);
  EXPECT_FLOAT_EQ(plain[1], (7 - 33.3f) / 58);
}

}  // namespace
}  // namespace millrace::convnets
