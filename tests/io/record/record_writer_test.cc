// SPDX-License-Identifier: Apache-2.0
// The writer against decoders that share nothing with the project: zlib's and zstd's own one-shot
// calls, the gzip and zstd programs where they are installed, and a CRC-32C computed bit by bit.

#include "io/record/record_writer.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "io/base/random.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

namespace fs = std::filesystem;

uint32_t BitwiseMaskedCrc(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78u & (0 - (crc & 1)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename Number>
Number Take(std::string_view& bytes) {
  Number number = 0;
  EXPECT_GE(bytes.size(), sizeof number);
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  bytes.remove_prefix(std::min(bytes.size(), sizeof number));
  return number;
}

std::vector<std::string> Unframed(std::string_view bytes) {
  std::vector<std::string> records;
  while (!bytes.empty() && !testing::Test::HasFailure()) {
    const std::string_view header = bytes.substr(0, 8);
    const auto length = Take<uint64_t>(bytes);
    EXPECT_EQ(Take<uint32_t>(bytes), BitwiseMaskedCrc(header));
    EXPECT_LE(length, bytes.size());
    records.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(std::min<size_t>(length, bytes.size()));
    EXPECT_EQ(Take<uint32_t>(bytes), BitwiseMaskedCrc(records.back()));
  }
  return records;
}

std::string Inflated(const std::string& packed, int window_bits) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, window_bits), Z_OK);
  std::string out(size_t{64} << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

std::string Unpacked(const std::string& packed, Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return packed;
    case Compression::kGzip:
      return Inflated(packed, 15 + 16);
    case Compression::kZlib:
      return Inflated(packed, 15);
    case Compression::kZstd:
      break;
  }
  std::string out(size_t{64} << 20, '\0');
  const size_t size = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
  EXPECT_FALSE(ZSTD_isError(size)) << ZSTD_getErrorName(size);
  out.resize(ZSTD_isError(size) ? 0 : size);
  return out;
}

// Empty ones, ones around the size of a write, and many small ones; half of them hard to compress.
std::vector<std::string> SomeRecords() {
  Random random(3);
  std::vector<std::string> records = {"",
                                      "a",
                                      "",
                                      std::string(262'132, 'b'),
                                      std::string(262'144, 'c'),
                                      std::string(1'500'000, 'd')};
  for (int i = 0; i < 3000; ++i) {
    std::string record(random.Below(800), 'r');
    for (char& c : record)
      c = static_cast<char>(i % 2 == 0 ? random.Next() : 'a' + random.Below(3));
    records.push_back(std::move(record));
  }
  return records;
}

class RecordWriterTest : public testing::TestWithParam<Compression> {
 protected:
  std::string path() const { return folder_ / ShardName("t", 0, 1, GetParam()); }

  RecordWriter Writer() const {
    auto writer = RecordWriter::Create(path(), {.compression = GetParam()});
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(*writer);
  }

  const test::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Compressions, RecordWriterTest,
                         testing::Values(Compression::kNone, Compression::kGzip, Compression::kZlib,
                                         Compression::kZstd),
                         [](const auto& compression) {
                           return CompressionName(compression.param);
                         });

TEST_P(RecordWriterTest, RecordsComeBackThroughIndependentDecoders) {
  const std::vector<std::string> records = SomeRecords();
  RecordWriter writer = Writer();
  for (const std::string& record : records) ASSERT_TRUE(writer.Append(record).ok());
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(writer.records(), records.size());
  const std::string framed = Unpacked(test::ReadFile(path()), GetParam());
  EXPECT_EQ(writer.bytes(), framed.size());
  EXPECT_EQ(Unframed(framed), records);
}

TEST_P(RecordWriterTest, FramedRecordsGiveTheSameBytesAsSingleOnes) {
  const std::vector<std::string> records = SomeRecords();
  std::string frames;
  RecordWriter writer = Writer();
  for (size_t i = 0; i < records.size(); ++i) {
    AppendFrame(records[i], frames);
    if (i % 7 != 6 && i + 1 != records.size()) continue;
    ASSERT_TRUE(writer.AppendFramed(frames).ok());
    frames.clear();
  }
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(writer.records(), records.size());
  EXPECT_EQ(Unframed(Unpacked(test::ReadFile(path()), GetParam())), records);
}

TEST_P(RecordWriterTest, NoRecordsGiveAFileOfNone) {
  RecordWriter writer = Writer();
  ASSERT_TRUE(writer.Close().ok());
  EXPECT_EQ(Unpacked(test::ReadFile(path()), GetParam()), "");
}

TEST_P(RecordWriterTest, NothingIsThereWithoutClose) {
  {
    RecordWriter writer = Writer();
    for (const std::string& record : SomeRecords()) ASSERT_TRUE(writer.Append(record).ok());
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_P(RecordWriterTest, CommandLineProgramsAgree) {
  const char* program = GetParam() == Compression::kGzip   ? "gzip"
                        : GetParam() == Compression::kZstd ? "zstd"
                                                           : nullptr;
  if (program == nullptr) GTEST_SKIP() << "no program for this format";
  if (std::system(("command -v " + std::string(program) + " >/dev/null").c_str()) != 0)
    GTEST_SKIP();
  const std::vector<std::string> records = SomeRecords();
  RecordWriter writer = Writer();
  for (const std::string& record : records) ASSERT_TRUE(writer.Append(record).ok());
  ASSERT_TRUE(writer.Close().ok());
  const std::string plain = folder_ / "plain";
  ASSERT_EQ(std::system((program + std::string(" -dc ") + path() + " > " + plain).c_str()), 0);
  EXPECT_EQ(Unframed(test::ReadFile(plain)), records);
}

// 300 kB of noise, so that every compression has to write before the end.
TEST_P(RecordWriterTest, FullDiskIsReportedAndStays) {
  auto writer = RecordWriter::Create("/dev/full", {.compression = GetParam()});
  ASSERT_TRUE(writer.ok());
  Random random(1);
  std::string noise(300'000, '\0');
  for (char& c : noise) c = static_cast<char>(random.Next());
  Status status;
  for (int i = 0; i < 3 && status.ok(); ++i) status = writer->Append(noise);
  EXPECT_EQ(status.message(), "cannot write /dev/full: No space left on device");
  EXPECT_EQ(writer->Append("more").message(), status.message());
  EXPECT_EQ(writer->Close().message(), status.message());
}

TEST(RecordWriter, FullDiskAtTheVeryEndIsReported) {
  auto writer = RecordWriter::Create("/dev/full");
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Append("small").ok());
  EXPECT_EQ(writer->Close().message(), "cannot write /dev/full: No space left on device");
}

TEST(RecordWriter, LevelOutOfRangeIsAnError) {
  EXPECT_FALSE(
      RecordWriter::Create("/dev/null", {.compression = Compression::kGzip, .level = 10}).ok());
  EXPECT_FALSE(
      RecordWriter::Create("/dev/null", {.compression = Compression::kZstd, .level = 99}).ok());
  EXPECT_FALSE(
      RecordWriter::Create("/dev/null", {.compression = Compression::kZstd, .level = -1}).ok());
}

TEST(RecordWriter, RecordThatNoReaderTakesIsRefused) {
  auto writer = RecordWriter::Create("/dev/null");
  ASSERT_TRUE(writer.ok());
  const std::string_view huge("x", (size_t{1} << 31) + 1);  // never looked at
  EXPECT_EQ(writer->Append(huge).code(), Code::kInvalid);
}

TEST(AppendFrame, MatchesAKnownFrame) {
  std::string out = "before";
  AppendFrame("hello", out);
  EXPECT_EQ(out.size(), 6 + 12 + 5 + 4u);
  EXPECT_EQ(Unframed(std::string_view(out).substr(6)), std::vector<std::string>{"hello"});
}

TEST(ShardName, TellsIndexCountAndCompression) {
  EXPECT_EQ(ShardName("train", 3, 10, Compression::kZstd), "train-00003-of-00010.tfrecord.zst");
  EXPECT_EQ(ShardName("/d/test", 0, 1, Compression::kNone), "/d/test-00000-of-00001.tfrecord");
  EXPECT_EQ(ShardName("x", 0, 1, Compression::kGzip), "x-00000-of-00001.tfrecord.gz");
}

}  // namespace
}  // namespace millrace::io
