// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/image_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/support/test_files.h"

namespace millrace::convnets {
namespace {

const std::string kShared = MILLRACE_SHARED_DATA "/images/";

TEST(DecodeImage, TakesGrayCmykPaletteAndAlpha) {
  SKIP_WITHOUT_SHARED_DATA();
  for (const std::string name : {"small.jpg", "medium.jpg", "grace_hopper.jpg", "lena_gray.png",
                                 "lena_palette.png", "lena_palette_trns.png", "lena_rgba.png",
                                 "jpeg_merge_test1.jpg", "jpeg_merge_test1_cmyk.jpg"}) {
    const auto image = DecodeImage(test::ReadFile(kShared + name), 0);
    ASSERT_TRUE(image.ok()) << name << ": " << image.status().message();
    EXPECT_EQ(image->pixels.size(), image->width * image->height * 3) << name;
  }
}

TEST(DecodeImage, CmykShowsWhatItsRgbTwinShows) {
  SKIP_WITHOUT_SHARED_DATA();
  const auto rgb = DecodeImage(test::ReadFile(kShared + "jpeg_merge_test1.jpg"), 0);
  const auto cmyk = DecodeImage(test::ReadFile(kShared + "jpeg_merge_test1_cmyk.jpg"), 0);
  ASSERT_TRUE(rgb.ok() && cmyk.ok());
  ASSERT_EQ(rgb->pixels.size(), cmyk->pixels.size());
  double difference = 0;
  for (size_t i = 0; i < rgb->pixels.size(); ++i) {
    difference += std::abs(rgb->pixels[i] - cmyk->pixels[i]);
  }
  EXPECT_LT(difference / static_cast<double>(rgb->pixels.size()), 12);
}

TEST(DecodeImage, CorruptImageIsAnError) {
  SKIP_WITHOUT_SHARED_DATA();
  for (const std::string name : {"bad_huffman.jpg", "corrupt.jpg", "corrupt34_2.jpg",
                                 "corrupt34_3.jpg", "corrupt34_4.jpg"}) {
    EXPECT_EQ(DecodeImage(test::ReadFile(kShared + name), 0).status().code(), Code::kCorrupt)
        << name;
  }
  const std::string whole = test::ReadFile(kShared + "small.jpg");
  const std::string png = test::ReadFile(kShared + "lena_gray.png");
  for (const size_t part : {0, 1, 2, 10, 100, 300}) {
    EXPECT_FALSE(DecodeImage(whole.substr(0, part), 0).ok()) << part;
    EXPECT_FALSE(DecodeImage(png.substr(0, part), 0).ok()) << part;
  }
  EXPECT_FALSE(DecodeImage("GIF89a", 0).ok());
}

}  // namespace
}  // namespace millrace::convnets
