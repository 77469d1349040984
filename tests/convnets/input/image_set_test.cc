// SPDX-License-Identifier: Apache-2.0
#include "convnets/input/image_set.h"

#include <gtest/gtest.h>

#include "io/example/example_encoder.h"
#include "io/record/compressor.h"
#include "io/record/record_writer.h"
#include "tests/support/test_files.h"

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

void WriteGzip(const std::string& path, const std::string& bytes) {
  auto compressor = io::MakeCompressor(io::Compression::kGzip, 0);
  ASSERT_TRUE(compressor.ok());
  RawBuffer packed;
  ASSERT_TRUE((*compressor)->Add(bytes, packed).ok() && (*compressor)->Finish(packed).ok());
  test::WriteFile(path, {packed.data(), packed.size()});
}

// A header may claim any number of images, and a small compressed file may have them.
TEST(OpenImages, ImagesBeyondTheMemoryLimitNameTheFile) {
  const TemporaryFolder folder;
  const std::string images = folder / "images", labels = folder / "labels";
  const uint32_t count = 1000000;
  WriteGzip(images, BigEndian(0x803) + BigEndian(count) + BigEndian(2) + BigEndian(2) +
                        std::string(size_t{4} * count, '\0'));
  WriteGzip(labels, BigEndian(0x801) + BigEndian(count) + std::string(count, '\0'));
  ImageOptions options = TwoByTwo();
  EXPECT_TRUE(OpenImages(images + "," + labels, options).ok());
  options.memory_gb = 0.001;
  const std::string message = OpenImages(images + "," + labels, options).status().message();
  EXPECT_TRUE(message.starts_with(images + ": record at offset ")) << message;
  EXPECT_NE(message.find("expected images that fit in 0.001 GB, found "), message.npos) << message;
  EXPECT_NE(message.find("raise memory_gb"), message.npos) << message;
}

TEST(OpenImages, CountsThatAFileDoesNotHaveAreNotBelieved) {
  const TemporaryFolder folder;
  const std::string images = folder / "images", labels = folder / "labels";
  const std::string image_bytes =
      BigEndian(0x803) + BigEndian(0xffffffff) + BigEndian(2) + BigEndian(2) + "1234";
  const std::string label_bytes = BigEndian(0x801) + BigEndian(0xffffffff) + "\x01";
  test::WriteFile(images, image_bytes);
  test::WriteFile(labels, label_bytes);
  EXPECT_EQ(OpenImages(images + "," + labels, TwoByTwo()).status().message(),
            images + ": expected 17179869196 bytes as its header says, found 20");
  WriteGzip(images, image_bytes);
  WriteGzip(labels, label_bytes);
  const std::string message = OpenImages(images + "," + labels, TwoByTwo()).status().message();
  EXPECT_TRUE(message.starts_with(images + ": item 1 of 4294967295: ")) << message;
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
