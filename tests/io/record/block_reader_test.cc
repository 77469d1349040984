// SPDX-License-Identifier: Apache-2.0
// Corrupt files: which are rejected, which records are skipped and which are found again.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "io/record/block_reader.h"
#include "io/record/record_writer.h"
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

// Cut at every byte: what is whole is delivered; the cut record is an error that names its offset,
// or one corruption.
TEST(RecordReader, TruncatedAnywhereIsCorruptAtTheTruncatedRecord) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  const std::string bytes = Frames(records);
  for (size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    WriteFile(folder / "cut", std::string_view(bytes).substr(0, size));
    size_t whole = 0;
    while (offsets[whole + 1] <= size) ++whole;
    const std::vector<std::string> expected(records.begin(),
                                            records.begin() + static_cast<ptrdiff_t>(whole));
    const Outcome failed = ReadAll(folder / "cut");
    EXPECT_EQ(failed.records, expected);
    const bool at_boundary = size == offsets[whole];
    EXPECT_EQ(failed.status.ok(), at_boundary);
    if (!at_boundary) {
      EXPECT_EQ(failed.status.code(), Code::kCorrupt);
      EXPECT_NE(failed.status.message().find((folder / "cut") + ": offset " +
                                             std::to_string(offsets[whole]) + ":"),
                std::string::npos)
          << failed.status.message();
    }
    const Outcome skipped = ReadAll(folder / "cut", Skipping(33));
    EXPECT_TRUE(skipped.status.ok());
    EXPECT_EQ(skipped.records, expected);
    EXPECT_EQ(skipped.corruption.events, at_boundary ? 0u : 1u);
    EXPECT_EQ(skipped.corruption.bytes, size - offsets[whole]);
  }
}

TEST(RecordReader, AnyFlippedBitIsFoundAndSkippingLosesOnlyItsRecord) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  const std::string bytes = Frames(records);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 3) {
    SCOPED_TRACE(bit);
    std::string corrupt = bytes;
    corrupt[bit / 8] = static_cast<char>(corrupt[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(folder / "bad", corrupt);
    size_t hit = 0;
    while (offsets[hit + 1] <= bit / 8) ++hit;
    const Outcome failed = ReadAll(folder / "bad", {.block_bytes = 100});
    ASSERT_EQ(failed.status.code(), Code::kCorrupt);
    EXPECT_NE(failed.status.message().find(": offset " + std::to_string(offsets[hit]) + ": "),
              std::string::npos);
    EXPECT_NE(failed.status.message().find("expected "), std::string::npos);
    EXPECT_NE(failed.status.message().find("found "), std::string::npos);
    std::vector<std::string> rest = records;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(hit));
    const Outcome skipped = ReadAll(folder / "bad", Skipping(100));
    EXPECT_TRUE(skipped.status.ok());
    EXPECT_EQ(skipped.records, rest);
    EXPECT_EQ(skipped.corruption.events, 1u);
    EXPECT_EQ(skipped.corruption.bytes, offsets[hit + 1] - offsets[hit]);
  }
}

TEST(RecordReader, AnyMissingByteLosesOnlyItsRecord) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  const std::string bytes = Frames(records);
  for (size_t at = 0; at < bytes.size(); ++at) {
    SCOPED_TRACE(at);
    std::string corrupt = bytes;
    corrupt.erase(at, 1);
    WriteFile(folder / "bad", corrupt);
    size_t hit = 0;
    while (offsets[hit + 1] <= at) ++hit;
    // A byte that equals its successor across the frame's end may be taken for the next record's.
    const Outcome skipped = ReadAll(folder / "bad", Skipping(64));
    std::vector<std::string> rest = records;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(hit));
    if (skipped.records != records) {
      EXPECT_EQ(skipped.records, rest);
    }
    EXPECT_EQ(skipped.corruption.events, skipped.records == records ? 0u : 1u);
  }
}

TEST(RecordReader, TwoCorruptNeighboursAreTwoEvents) {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {"aaaa", "bbbb", "cccc", "dddd"};
  std::string bytes = Frames(records);
  const auto offsets = FrameOffsets(records);
  bytes[offsets[1] + 12] ^= 1;
  bytes[offsets[2] + 12] ^= 1;
  WriteFile(folder / "bad", bytes);
  std::vector<std::string> messages;
  BlockOptions options = Skipping();
  options.on_corruption = [&](const std::string& message) { messages.push_back(message); };
  const Outcome outcome = ReadAll(folder / "bad", options);
  EXPECT_EQ(outcome.records, (std::vector<std::string>{"aaaa", "dddd"}));
  EXPECT_EQ(outcome.corruption.events, 2u);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[1].find("offset " + std::to_string(offsets[2])), std::string::npos);
}

// Bytes, and then an error of the operating system; counts how often it is asked.
class FailingSource : public ByteSource {
 public:
  FailingSource(std::string bytes, Status end, int* reads)
      : bytes_(std::move(bytes)), end_(std::move(end)), reads_(reads) {}
  Status Read(std::span<char> out, size_t* delivered) override {
    ++*reads_;
    *delivered = std::min(out.size(), bytes_.size() - at_);
    std::copy_n(bytes_.data() + at_, *delivered, out.data());
    at_ += *delivered;
    return at_ == bytes_.size() && *delivered < out.size() ? end_ : Status();
  }

 private:
  std::string bytes_;
  Status end_;
  int* reads_;
  size_t at_ = 0;
};

TEST(BlockReader, DiskErrorIsReportedAndNeverSkipped) {
  const std::string bytes = Frames({"one", "two", std::string(1000, 'x')});
  for (const OnCorrupt on_corrupt : {OnCorrupt::kFail, OnCorrupt::kSkip}) {
    for (size_t size = 0; size <= bytes.size(); ++size) {
      int reads = 0;
      OpenedSource source;
      source.bytes =
          std::make_unique<FailingSource>(bytes.substr(0, size), IoError("disk", EIO), &reads);
      BlockReader reader("file", std::move(source), {.on_corrupt = on_corrupt, .block_bytes = 64});
      Block block;
      Result<bool> more = true;
      while (more.ok() && *more) more = reader.Next(block);
      ASSERT_EQ(more.status().code(), Code::kIo) << size;
    }
  }
}

TEST(BlockReader, SkippingGarbageReadsInBlocks) {
  Random random(8);
  std::string garbage;
  for (int i = 0; i < 1000000; ++i) garbage += static_cast<char>(random.Next());
  for (const Framing framing : {Framing::kTfRecord, Framing::kLines}) {
    int reads = 0;
    OpenedSource source;
    std::erase(garbage, '\n');
    source.bytes = std::make_unique<FailingSource>(garbage, Status(), &reads);
    BlockOptions options = Skipping(10000);
    options.framing = framing;
    options.max_record_bytes = 100;
    BlockReader reader("file", std::move(source), options);
    Block block;
    while (*reader.Next(block)) continue;
    EXPECT_EQ(reader.corruption().events, 1u);
    EXPECT_LT(reads, 250);
  }
}

TEST(RecordReader, GarbageBetweenRecordsIsSkipped) {
  const TemporaryFolder folder;
  Random random(5);
  std::string garbage;
  for (int i = 0; i < 1000; ++i) garbage += static_cast<char>(random.Next());
  WriteFile(folder / "bad", Frames({"one"}) + garbage + Frames({"two", "three"}));
  const Outcome outcome = ReadAll(folder / "bad", Skipping(128));
  EXPECT_EQ(outcome.records, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(outcome.corruption.bytes, garbage.size());
}

// A header with a valid CRC that claims terabytes must cost neither memory nor time.
TEST(RecordReader, AbsurdLengthIsRefusedWithoutAllocating) {
  const TemporaryFolder folder;
  for (const uint64_t length :
       {uint64_t{1} << 31, (uint64_t{1} << 31) + 1, uint64_t{1} << 40, ~uint64_t{0}}) {
    char header[kRecordHeaderBytes];
    StoreU64(header, length);
    StoreU32(header + 8, MaskedCrc32c(header, 8));
    WriteFile(folder / "bad",
              Frames({"one"}) + std::string(header, sizeof header) + Frames({"two"}));
    const Outcome failed = ReadAll(folder / "bad");
    EXPECT_EQ(failed.records.size(), 1u);
    EXPECT_EQ(failed.status.code(), Code::kCorrupt);
    EXPECT_EQ(ReadAll(folder / "bad", Skipping()).records,
              (std::vector<std::string>{"one", "two"}));
    Block block;
    auto reader = BlockReader::Open(folder / "bad", Skipping());
    while (*(*reader)->Next(block)) EXPECT_LT(block.bytes.capacity(), 2u << 20);
  }
}

TEST(RecordReader, RandomCorruptionNeverCrashesOrHangs) {
  const TemporaryFolder folder;
  const std::string bytes = Frames(SomeRecords());
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string corrupt = bytes;
    for (uint64_t i = 0; i <= random.Below(6); ++i) {
      const size_t at = random.Below(corrupt.size());
      switch (random.Below(3)) {
        case 0:
          corrupt[at] = static_cast<char>(random.Next());
          break;
        case 1:
          corrupt.erase(at, random.Below(20));
          break;
        default:
          corrupt.insert(at, bytes.substr(random.Below(bytes.size()), random.Below(50)));
      }
      if (corrupt.empty()) corrupt = "x";
    }
    WriteFile(folder / "bad", corrupt);
    const Outcome skipped = ReadAll(folder / "bad", Skipping(1 + random.Below(200)));
    EXPECT_TRUE(skipped.status.ok() || skipped.status.code() == Code::kCorrupt)
        << skipped.status.message();
    EXPECT_EQ(ReadAll(folder / "bad", Skipping(1 + random.Below(200))).records, skipped.records);
  }
}

std::string Header(uint64_t length) {
  std::string header(kRecordHeaderBytes, ' ');
  StoreU64(header.data(), length);
  StoreU32(header.data() + 8, MaskedCrc32c(header.data(), 8));
  return header;
}

bool HeaderIsAt(const std::string& bytes, size_t at) {
  return at + kRecordHeaderBytes <= bytes.size() && HeaderIsValid(bytes.data() + at);
}

// The size of the frame at `at` by its header, or 0 where there is no such frame.
size_t ClaimedFrame(const std::string& bytes, size_t at) {
  if (!HeaderIsAt(bytes, at)) return 0;
  const uint64_t length = LoadU64(bytes.data() + at);
  if (length > bytes.size()) return 0;
  const size_t size = kRecordHeaderBytes + length + kRecordFooterBytes;
  return at + size <= bytes.size() ? size : 0;
}

bool IsWholeFrame(const std::string& bytes, size_t at) {
  const size_t size = ClaimedFrame(bytes, at);
  if (size == 0) return false;
  const char* data = bytes.data() + at + kRecordHeaderBytes;
  const size_t length = size - kRecordHeaderBytes - kRecordFooterBytes;
  return LoadU32(data + length) == MaskedCrc32c(data, length);
}

// What skipping gives, by its rules alone: each candidate's CRC is taken from the start.
Outcome NaiveSkip(const std::string& bytes) {
  Outcome outcome;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = ClaimedFrame(bytes, at);
    if (IsWholeFrame(bytes, at)) {
      outcome.records.push_back(
          bytes.substr(at + kRecordHeaderBytes, size - kRecordHeaderBytes - kRecordFooterBytes));
      at += size;
      continue;
    }
    size_t next = at + size;
    const bool only_data_is_corrupt = size > 0 && (next == bytes.size() || HeaderIsAt(bytes, next));
    if (!only_data_is_corrupt) {
      for (next = at + 1; next < bytes.size() && !IsWholeFrame(bytes, next);) ++next;
    }
    outcome.corruption.Add(next - at, "");
    at = next;
  }
  return outcome;
}

// Records that hold frames themselves, wrong headers, and bytes changed, removed and added.
std::string RandomlyCorrupted(Random& random) {
  std::string bytes;
  for (uint64_t i = 0; i < 30; ++i) {
    const std::string inner = Frames(SomeRecords()).substr(0, random.Below(500));
    switch (random.Below(6)) {
      case 0:
        AppendFrame(inner, bytes);
        break;
      case 1:
        bytes += inner;
        break;
      case 2:
        for (uint64_t k = 0; k <= random.Below(40); ++k) bytes += Header(random.Below(2000));
        break;
      default:
        AppendFrame(std::to_string(random.Next()), bytes);
    }
  }
  for (uint64_t i = 0; i < random.Below(4); ++i) {
    const size_t at = random.Below(bytes.size());
    if (random.Below(2) == 0) {
      bytes[at] = static_cast<char>(random.Next());
    } else {
      bytes.erase(at, random.Below(300));
    }
  }
  return bytes;
}

TEST(BlockReader, SkippingFindsWhatTheNaiveSearchFinds) {
  const TemporaryFolder folder;
  size_t events = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::string bytes = RandomlyCorrupted(random);
    const Outcome expected = NaiveSkip(bytes);
    WriteFile(folder / "bad", bytes);
    for (const size_t block_bytes : {size_t{1} + random.Below(300), size_t{256} << 10}) {
      const Outcome found = ReadAll(folder / "bad", Skipping(block_bytes));
      ASSERT_TRUE(found.status.ok()) << found.status.message();
      ASSERT_EQ(found.records, expected.records);
      EXPECT_EQ(found.corruption.bytes, expected.corruption.bytes);
      EXPECT_EQ(found.corruption.events, expected.corruption.events);
    }
    events += expected.corruption.events;
  }
  EXPECT_GT(events, 1000u);
}

// Each of a million headers claims half of the file, which fails its CRC. A search that looked at
// all that is claimed would read 10^13 bytes and outlast the test's time limit many times.
TEST(BlockReader, WrongLengthsInHeadersCostLinearTime) {
  constexpr size_t kBytes = 16 << 20;
  for (const std::string& between : {std::string(), Frames({""}), Frames({"", "x"})}) {
    const std::string unit = Header(kBytes / 2) + between;
    std::string bytes;
    for (size_t i = 0; i < kBytes / unit.size(); ++i) bytes += unit;
    int reads = 0;
    OpenedSource source;
    source.bytes = std::make_unique<FailingSource>(bytes, Status(), &reads);
    BlockReader reader("file", std::move(source), Skipping());
    Block block;
    size_t records = 0;
    while (*reader.Next(block)) records += block.records.size();
    EXPECT_EQ(records, bytes.size() / unit.size() * (between.size() / 16));
    EXPECT_EQ(reader.corruption().bytes,
              bytes.size() - records * 16 - (between.size() > 16 ? records / 2 : 0));
    EXPECT_LT(reads, 100);
  }
}

// A pipe with a file name.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    read_ = ends[0];
    write_ = ends[1];
  }
  ~Pipe() {
    ::close(read_);
    Close();
  }
  std::string path() const { return "/dev/fd/" + std::to_string(read_); }
  void Write(std::string_view bytes) {
    EXPECT_EQ(::write(write_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void Close() {
    if (write_ >= 0) ::close(write_);
    write_ = -1;
  }

 private:
  int read_ = -1, write_ = -1;
};

// A reader that waited for a full block, or for the bytes of a TFRecord header at its start, would
// never return.
TEST(StreamingReader, DeliversWhatHasArrived) {
  for (const Framing framing : {Framing::kTfRecord, Framing::kLines}) {
    Pipe pipe;
    const auto frame = [&](std::string_view record) {
      return framing == Framing::kLines ? std::string(record) + "\n"
                                        : Frames({std::string(record)});
    };
    pipe.Write(frame("a"));
    auto reader = BlockReader::Open(pipe.path(), {.framing = framing, .streaming = true});
    ASSERT_TRUE(reader.ok());
    Block block;
    ASSERT_TRUE(*(*reader)->Next(block));
    ASSERT_EQ(block.records.size(), 1u);
    EXPECT_EQ(block.record(0), "a");
    // A whole record and a half: the half stays for the next block.
    const std::string two = frame("bb") + frame("ccc");
    pipe.Write(two.substr(0, two.size() - 2));
    ASSERT_TRUE(*(*reader)->Next(block));
    ASSERT_EQ(block.records.size(), 1u);
    EXPECT_EQ(block.record(0), "bb");
    pipe.Write(two.substr(two.size() - 2));
    ASSERT_TRUE(*(*reader)->Next(block));
    EXPECT_EQ(block.record(0), "ccc");
    pipe.Close();
    EXPECT_FALSE(*(*reader)->Next(block));
  }
}

TEST(StreamingReader, FindsTheSameRecordsWhereverTheBytesAreCut) {
  std::vector<std::string> records;
  for (size_t i = 0; i < 20; ++i) records.emplace_back(i, static_cast<char>('a' + i));
  const std::string bytes = Frames(records);
  for (size_t piece = 1; piece < 40; ++piece) {
    SCOPED_TRACE(piece);
    Pipe pipe;
    std::jthread writer([&] {
      for (size_t at = 0; at < bytes.size(); at += piece) pipe.Write(bytes.substr(at, piece));
      pipe.Close();
    });
    auto reader = BlockReader::Open(pipe.path(), {.streaming = true});
    ASSERT_TRUE(reader.ok());
    Block block;
    std::vector<std::string> found;
    while (*(*reader)->Next(block)) {
      for (size_t i = 0; i < block.records.size(); ++i) found.emplace_back(block.record(i));
    }
    EXPECT_EQ(found, records);
  }
}

// The compression is detected from bytes that arrive one by one.
TEST(StreamingReader, DecompressesAPipe) {
  const TemporaryFolder folder;
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    SCOPED_TRACE(CompressionName(compression));
    auto file = RecordWriter::Create(folder / "file", {.compression = compression});
    ASSERT_TRUE(file.ok() && file->Append("one").ok() && file->Append("two").ok());
    ASSERT_TRUE(file->Close().ok());
    const std::string bytes = test::ReadFile(folder / "file");
    Pipe pipe;
    std::jthread writer([&] {
      for (const char byte : bytes) pipe.Write({&byte, 1});
      pipe.Close();
    });
    auto reader = BlockReader::Open(pipe.path(), {.streaming = true});
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ((*reader)->compression(), compression);
    Block block;
    std::vector<std::string> found;
    while (*(*reader)->Next(block)) {
      for (size_t i = 0; i < block.records.size(); ++i) found.emplace_back(block.record(i));
    }
    EXPECT_EQ(found, (std::vector<std::string>{"one", "two"}));
  }
}

}  // namespace
}  // namespace millrace::io
