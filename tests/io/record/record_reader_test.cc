// SPDX-License-Identifier: Apache-2.0
#include "io/record/record_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "tests/support/record_files.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

using test::FrameOffsets;
using test::Frames;
using test::Outcome;
using test::ReadAll;
using test::Skipping;
using test::SomeRecords;
using test::TemporaryFolder;
using test::WriteFile;

void WriteCompressed(const std::string& path, const std::vector<std::string>& records,
                     Compression compression) {
  auto writer = RecordWriter::Create(path, {.compression = compression});
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const std::string& record : records) ASSERT_TRUE(writer->Append(record).ok());
  ASSERT_TRUE(writer->Close().ok());
}

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip, Compression::kZlib,
                                         Compression::kZstd};

TEST(RecordReader, ReadsBackWhatWasWrittenAtEveryBlockSize) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  WriteFile(folder / "a", Frames(records));
  for (size_t block = 1; block <= 40; ++block) {
    const Outcome outcome = ReadAll(folder / "a", {.block_bytes = block});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    ASSERT_EQ(outcome.records, records) << "block size " << block;
  }
}

TEST(RecordReader, DetectsCompressionByContentWhateverTheName) {
  const TemporaryFolder folder;
  for (const Compression compression : kCompressions) {
    WriteCompressed(folder / "data.txt", SomeRecords(), compression);
    auto reader = RecordReader::Open(folder / "data.txt");
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->compression(), compression);
    EXPECT_EQ(ReadAll(folder / "data.txt", {.block_bytes = 7}).records, SomeRecords());
  }
  WriteFile(folder / "plain.gz", Frames(SomeRecords()));
  EXPECT_EQ(ReadAll(folder / "plain.gz").records, SomeRecords());
}

TEST(RecordReader, ReadsGzipMembersAndZstdFramesOneBehindTheOther) {
  const TemporaryFolder folder;
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    WriteCompressed(folder / "a", {"one", "two"}, compression);
    const std::string bytes = test::ReadFile(folder / "a");
    WriteFile(folder / "twice", bytes + bytes);
    const Outcome outcome = ReadAll(folder / "twice");
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.records, (std::vector<std::string>{"one", "two", "one", "two"}));
  }
}

TEST(RecordReader, EmptyFileHasNoRecords) {
  const TemporaryFolder folder;
  WriteFile(folder / "empty", "");
  const Outcome outcome = ReadAll(folder / "empty");
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_TRUE(outcome.records.empty());
}

TEST(RecordReader, NamesWhatCannotBeOpened) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadAll(folder / "none").status.code(), Code::kNotFound);
  const Status directory = ReadAll(folder.path()).status;
  EXPECT_EQ(directory.message(), folder.path() +
                                     ": expected a file, found a directory; its files are '" +
                                     folder.path() + "/*' (in quotes)");
}

TEST(RecordReader, ReadsAFifo) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::jthread writer([&] { WriteFile(folder / "pipe", Frames(SomeRecords())); });
  EXPECT_EQ(ReadAll(folder / "pipe").records, SomeRecords());
}

TEST(RecordReader, OffsetsAreThoseOfTheHeaders) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  WriteFile(folder / "a", Frames(records));
  auto reader = RecordReader::Open(folder / "a", {.block_bytes = 50});
  RecordView record;
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_TRUE(*reader->Next(record));
    EXPECT_EQ(record.offset, offsets[i]);
  }
}

TEST(RecordReader, RecordsLargerThanABlockArrive) {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {"small", std::string(3 << 20, 'L'), "tail",
                                            std::string(700000, 'M')};
  WriteFile(folder / "big", Frames(records));
  EXPECT_EQ(ReadAll(folder / "big").records, records);
  const Status refused = ReadAll(folder / "big", {.max_record_bytes = 1 << 20}).status;
  EXPECT_NE(
      refused.message().find("record length: expected at most 1048576 bytes, found 3145728; if "),
      std::string::npos);
}

TEST(RecordReader, CorruptCompressionKeepsWhatCameBefore) {
  const TemporaryFolder folder;
  std::vector<std::string> records;
  Random random(3);
  for (int i = 0; i < 3000; ++i) records.push_back(std::to_string(random.Next()));
  for (const Compression compression :
       {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    SCOPED_TRACE(CompressionName(compression));
    WriteCompressed(folder / "a", records, compression);
    const std::string bytes = test::ReadFile(folder / "a");
    for (const size_t cut : {bytes.size() / 2, bytes.size() - 1}) {
      WriteFile(folder / "cut", bytes.substr(0, cut));
      const Outcome failed = ReadAll(folder / "cut", {.block_bytes = 4096});
      EXPECT_EQ(failed.status.code(), Code::kCorrupt);
      EXPECT_NE(failed.status.message().find("compressed offset"), std::string::npos)
          << failed.status.message();
      EXPECT_NE(failed.status.message().find(CompressionName(compression)), std::string::npos);
      const Outcome skipped = ReadAll(folder / "cut", Skipping(4096));
      EXPECT_TRUE(skipped.status.ok());
      EXPECT_EQ(skipped.corruption.events, 1u);
      EXPECT_EQ(skipped.records, failed.records);
      EXPECT_TRUE(std::equal(failed.records.begin(), failed.records.end(), records.begin()));
    }
    std::string corrupt = bytes;
    corrupt[bytes.size() / 2] ^= 0x55;
    WriteFile(folder / "bad", corrupt);
    EXPECT_EQ(ReadAll(folder / "bad").status.code(), Code::kCorrupt);
  }
}

TEST(RecordReader, ContentIsDescribedOnlyWhereTheFirstRecordIsCorrupt) {
  const TemporaryFolder folder;
  const BlockOptions options = {.describe_content = [](std::string_view first_bytes) {
    return "; found " + std::string(first_bytes.substr(0, 4));
  }};
  WriteFile(folder / "a", "text that is no record");
  EXPECT_TRUE(ReadAll(folder / "a", options).status.message().ends_with("; found text"));
  EXPECT_EQ(ReadAll(folder / "a").status.message().find("found text"), std::string::npos);
  WriteFile(folder / "a", Frames({"one"}) + "text where a header should be");
  EXPECT_EQ(ReadAll(folder / "a", options).status.message().find("; found"), std::string::npos);
}

TEST(LineReader, RefusesRecords) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", Frames({"one"}));
  const Status status = ReadAll(folder / "a", {.framing = Framing::kLines}).status;
  EXPECT_NE(status.message().find("found a TFRecord file"), std::string::npos) << status.message();
}

TEST(LineReader, GivesLinesWithoutTheirEndsAtEveryBlockSize) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "one\r\n\ntwo\nlast without newline");
  for (size_t block = 1; block < 40; ++block) {
    const Outcome outcome =
        ReadAll(folder / "a", {.framing = Framing::kLines, .block_bytes = block});
    ASSERT_TRUE(outcome.status.ok());
    EXPECT_EQ(outcome.records,
              (std::vector<std::string>{"one", "", "two", "last without newline"}));
  }
}

TEST(LineReader, EndlessLineIsRefused) {
  const TemporaryFolder folder;
  WriteFile(folder / "a", "short\n" + std::string(5000, 'x') + "\nnext\n");
  BlockOptions options{.framing = Framing::kLines, .block_bytes = 64, .max_record_bytes = 1000};
  EXPECT_EQ(ReadAll(folder / "a", options).status.code(), Code::kCorrupt);
  options.on_corrupt = OnCorrupt::kSkip;
  EXPECT_EQ(ReadAll(folder / "a", options).records, (std::vector<std::string>{"short", "next"}));
}

TEST(LineReader, LimitDoesNotDependOnTheBlockSize) {
  const TemporaryFolder folder;
  for (const size_t length : {99, 100, 101}) {
    WriteFile(folder / "a", std::string(length, 'x') + "\nnext\n");
    for (const size_t block : {1, 64, 4096}) {
      const Status status =
          ReadAll(folder / "a",
                  {.framing = Framing::kLines, .block_bytes = block, .max_record_bytes = 100})
              .status;
      EXPECT_EQ(status.ok(), length <= 100) << length << ", block size " << block;
    }
  }
}

// The peak of a reader's memory is its largest block.
TEST(RecordReader, CompressedFileNeedsNoMoreMemoryThanTheLimit) {
  const TemporaryFolder folder;
  const std::string zeros(64 << 20, '\0');
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    WriteCompressed(folder / "bomb", {"good", zeros}, compression);
    for (const Framing framing : {Framing::kTfRecord, Framing::kLines}) {
      auto file = OpenSource(folder / "bomb");
      ASSERT_TRUE(file.ok());
      if (framing == Framing::kLines) {  // past the header, which looks like a TFRecord file
        char byte;
        size_t got = 0;
        ASSERT_TRUE(file->bytes->Read({&byte, 1}, &got).ok());
      }
      BlockReader reader("bomb", std::move(*file), {.framing = framing});
      Block block;
      Result<bool> more = true;
      size_t most = 0;
      while (more.ok() && *more) {
        more = reader.Next(block);
        most = std::max(most, block.bytes.capacity());
      }
      ASSERT_FALSE(more.ok());
      EXPECT_NE(more.status().message().find("expected at most 33554432 bytes, found "),
                std::string::npos)
          << more.status().message();
      EXPECT_NE(more.status().message().find("raise max_record_bytes"), std::string::npos);
      EXPECT_LE(most, size_t{80} << 20);
    }
  }
}

TEST(RecordReader, HighlyCompressibleFileOfShortRecordsIsRead) {
  const TemporaryFolder folder;
  const std::vector<std::string> records(200'000, std::string(100, 'x'));
  WriteCompressed(folder / "a", records, Compression::kZstd);
  EXPECT_LT(std::filesystem::file_size(folder / "a"), 20'000u);
  EXPECT_EQ(ReadAll(folder / "a").records.size(), records.size());
}

TEST(RecordReader, ZstdWindowAboveTheLimitIsRefused) {
  const TemporaryFolder folder;
  // Magic, frame header without content size, window descriptor 2^31.
  WriteFile(folder / "a", std::string("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9));
  const Status status = ReadAll(folder / "a").status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("a window above the limit of 128 MiB"), std::string::npos)
      << status.message();
}

TEST(RecordReader, RegularFileRefusesFifosWithoutBlocking) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadAll(folder / "fifo", {.regular_file = true}).status.message(),
            folder / "fifo" + ": expected a regular file, found a FIFO");
  EXPECT_EQ(ReadAll("/dev/zero", {.regular_file = true}).status.message(),
            "/dev/zero: expected a regular file, found a device");
  EXPECT_EQ(ReadAll("-", {.regular_file = true}).status.code(), Code::kInvalid);
}

}  // namespace
}  // namespace millrace::io
