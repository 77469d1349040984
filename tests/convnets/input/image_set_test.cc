#include "convnets/input/image_set.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convnets/input/image_decoder.h"
#include "convnets/input/preprocess.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "tests/test_files.h"

namespace millrace::convnets {
namespace {

using test::TemporaryFolder;

const std::string kShared = MILLRACE_SHARED_DATA "/images/";

std::string BigEndian(uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8),
          static_cast<char>(x)};
}

ImageOptions TwoByTwo() {
  ImageOptions options;
  options.shape = {1, 2, 2};
  return options;
}

std::string EncodedRecord(const std::string& image, int64_t label) {
  io::ExampleBuilder builder;
  const std::string_view bytes = image;
  builder.AddInt64("image/class/label", {&label, 1});
  builder.AddBytes("image/encoded", {&bytes, 1});
  std::string record;
  builder.Finish(record);
  return record;
}

void WriteRecords(const std::string& path, const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) io::AppendFrame(record, bytes);
  test::WriteFile(path, bytes);
}

TEST(OpenImages, ReadsAPairOfIdxFilesInEitherOrder) {
  const TemporaryFolder folder;
  test::WriteFile(folder / "images-ubyte", BigEndian(0x803) + BigEndian(2) + BigEndian(2) +
                                               BigEndian(2) +
                                               std::string("\x00\x33\xff\x66\x01\x02\x03\x04", 8));
  test::WriteFile(folder / "labels-ubyte", BigEndian(0x801) + BigEndian(2) + "\x07\x03");
  for (const std::string& files : {folder / "images-ubyte" + "," + folder / "labels-ubyte",
                                   folder / "labels-ubyte" + "," + folder / "images-ubyte"}) {
    const auto images = OpenImages(files, TwoByTwo());
    ASSERT_TRUE(images.ok()) << images.status().message();
    ASSERT_EQ((*images)->size(), 2u);
    std::vector<float> pixels(4);
    EXPECT_EQ(*(*images)->Read(0, 0, pixels), 7);
    EXPECT_FLOAT_EQ(pixels[1], 0.2f);
    EXPECT_FLOAT_EQ(pixels[2], 1.0f);
    EXPECT_EQ(*(*images)->Read(1, 0, pixels), 3);
  }
}

TEST(OpenImages, ReadsMnistRecords) {
  const TemporaryFolder folder;
  io::ExampleBuilder builder;
  const std::string_view raw("\x00\xff\x00\xff", 4);
  const int64_t label = 9;
  builder.AddBytes("image_raw", {&raw, 1});
  builder.AddInt64("label", {&label, 1});
  std::string record;
  builder.Finish(record);
  WriteRecords(folder / "a.tfrecord", {record});
  const auto images = OpenImages(folder / "a.tfrecord", TwoByTwo());
  ASSERT_TRUE(images.ok()) << images.status().message();
  std::vector<float> pixels(4);
  EXPECT_EQ(*(*images)->Read(0, 0, pixels), 9);
  EXPECT_EQ(pixels, (std::vector<float>{0, 1, 0, 1}));
}

TEST(OpenImages, WrongLabelsAndSizesNameFileAndRecord) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.tfrecord";
  WriteRecords(path, {EncodedRecord("x", 3), EncodedRecord("x", 10)});
  const std::string second = std::to_string(EncodedRecord("x", 3).size() + 16);
  EXPECT_EQ(OpenImages(path, TwoByTwo()).status().message(),
            path + ": record at offset " + second + ": label: expected 0 to 9, found 10");
  ImageOptions shifted = TwoByTwo();
  shifted.label_offset = 1;
  EXPECT_TRUE(OpenImages(path, shifted).ok());
  WriteRecords(path, {"no example at all"});
  EXPECT_EQ(OpenImages(path, TwoByTwo()).status().code(), Code::kCorrupt);
}

TEST(OpenImages, CorruptImageNamesFileAndRecord) {
  SKIP_WITHOUT_SHARED_DATA();
  const TemporaryFolder folder;
  const std::string path = folder / "a.tfrecord";
  WriteRecords(path, {EncodedRecord(test::ReadFile(kShared + "small.jpg"), 1),
                      EncodedRecord(test::ReadFile(kShared + "corrupt.jpg"), 2)});
  ImageOptions options;
  options.shape = {3, 20, 30};
  const auto images = OpenImages(path, options);
  ASSERT_TRUE(images.ok());
  std::vector<float> pixels(options.shape.size());
  EXPECT_TRUE((*images)->Read(0, 0, pixels).ok());
  const std::string message = (*images)->Read(1, 0, pixels).status().message();
  EXPECT_TRUE(message.starts_with(path + ": record at offset ")) << message;
  EXPECT_NE(message.find("JPEG: "), std::string::npos) << message;
}

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

TEST(SyntheticImages, AreTheSameForTheSameSeed) {
  ImageOptions options;
  options.shape = {3, 9, 10};
  const auto a = SyntheticImages(options, 10, 1, false), b = SyntheticImages(options, 10, 1, false);
  const auto test = SyntheticImages(options, 10, 1, true);
  std::vector<float> x(270), y(270), z(270);
  EXPECT_EQ(*a->Read(3, 0, x), *b->Read(3, 7, y));
  EXPECT_EQ(x, y);
  ASSERT_TRUE(test->Read(3, 0, z).ok());
  EXPECT_NE(x, z);
}

}  // namespace
}  // namespace millrace::convnets
