// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/image_decoder.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

// jpeglib.h requires the declarations of size_t and FILE.
#include <jpeglib.h>

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

std::string BigEndian(uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8),
          static_cast<char>(x)};
}

std::string PngChunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  const auto crc =
      ::crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
  return BigEndian(static_cast<uint32_t>(content.size())) + checked +
         BigEndian(static_cast<uint32_t>(crc));
}

// A grey image, all black.
std::string PngOf(uint32_t width, uint32_t height) {
  const std::string rows(size_t{height} * (width + 1), '\0');
  uLongf size = ::compressBound(rows.size());
  std::string packed(size, '\0');
  EXPECT_EQ(::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                       reinterpret_cast<const Bytef*>(rows.data()), rows.size()),
            Z_OK);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         PngChunk("IHDR", BigEndian(width) + BigEndian(height) + std::string("\x08\0\0\0\0", 5)) +
         PngChunk("IDAT", packed) + PngChunk("IEND", "");
}

// The same with another size in its header.
std::string PngThatClaims(uint32_t width, uint32_t height) {
  const std::string png = PngOf(8, 8);
  const std::string header = BigEndian(width) + BigEndian(height) + png.substr(24, 5);
  return png.substr(0, 8) + PngChunk("IHDR", header) + png.substr(33);
}

// A grey progressive image with one scan for the mean and `scans - 1` for single frequencies.
std::string JpegOf(unsigned width, unsigned height, int scans) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  // Frequency 1 + i / 2 with its low bit left out (i even), or that bit alone (i odd).
  std::vector<jpeg_scan_info> list = {{1, {0}, 0, 0, 0, 0}};
  for (int i = 0; i + 1 < scans; ++i) {
    const int at = 1 + i / 2;
    list.push_back({1, {0}, at, at, i % 2 == 0 ? 0 : 1, i % 2 == 0 ? 1 : 0});
  }
  info.scan_info = list.data();
  info.num_scans = scans;
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(width, 100);
  JSAMPROW rows = row.data();
  for (unsigned y = 0; y < height; ++y) jpeg_write_scanlines(&info, &rows, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string image(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return image;
}

// The same image with another size in its frame header: ff c2, length, precision, height, width.
std::string JpegThatClaims(uint16_t width, uint16_t height) {
  std::string image = JpegOf(8, 8, 2);
  const size_t frame = image.find("\xff\xc2");
  image.replace(frame + 5, 4, BigEndian(uint32_t{height} << 16 | width));
  return image;
}

TEST(DecodeImage, HugeImagesAreRefusedBeforeTheirPixelsAreAllocated) {
  EXPECT_TRUE(DecodeImage(PngThatClaims(8, 8), 0).ok());
  EXPECT_EQ(DecodeImage(PngThatClaims(8193, 8192), 0).status().message(),
            "PNG: expected at most 67108864 pixels, found 8193 x 8192");
  EXPECT_EQ(DecodeImage(PngThatClaims(1000000, 1000000), 0).status().message(),
            "PNG: expected at most 67108864 pixels, found 1000000 x 1000000");
  EXPECT_FALSE(DecodeImage(PngThatClaims(0x7fffffff, 0x7fffffff), 0).ok());
  EXPECT_TRUE(DecodeImage(JpegThatClaims(8, 8), 0).ok());
  EXPECT_EQ(DecodeImage(JpegThatClaims(65500, 65500), 0).status().message(),
            "JPEG: expected at most 67108864 pixels, found 65500 x 65500");
}

// 8 KB that make 25 MB.
TEST(DecodeImage, SmallFilesOfLargeImagesBelowTheLimitAreDecoded) {
  const std::string png = PngOf(2900, 2900);
  EXPECT_LT(png.size(), 10000u);
  const auto image = DecodeImage(png, 0);
  ASSERT_TRUE(image.ok()) << image.status().message();
  EXPECT_EQ(image->pixels.size(), size_t{2900} * 2900 * 3);
}

// Each scan is a pass over the whole image.
TEST(DecodeImage, ScansOfProgressiveImagesAreLimited) {
  for (const int scans : {2, 11, kMaxScans}) {
    const auto image = DecodeImage(JpegOf(40, 30, scans), 0);
    ASSERT_TRUE(image.ok()) << scans << ": " << image.status().message();
    EXPECT_EQ(image->pixels[0], 100);
  }
  EXPECT_EQ(DecodeImage(JpegOf(40, 30, kMaxScans + 1), 0).status().message(),
            "JPEG: expected at most 100 scans, found more");
}

// The same scan again and again: libjpeg warns of it, and decodes them all.
TEST(DecodeImage, RepeatedScansEndAtTheFirstOne) {
  std::string image = JpegOf(40, 30, 2);
  const size_t scan = image.rfind("\xff\xda");
  ASSERT_NE(scan, image.npos);
  const std::string last = image.substr(scan, image.size() - 2 - scan);
  image.resize(image.size() - 2);
  for (int i = 0; i < 5; ++i) image += last;
  const std::string message = DecodeImage(image + "\xff\xd9", 0).status().message();
  EXPECT_NE(message.find("progression"), message.npos) << message;
}

}  // namespace
}  // namespace millrace::convnets
