#include "io/record/record_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "io/base/random.h"
#include "io/record/record_format.h"
#include "io/record/record_writer.h"
#include "tests/test_files.h"

namespace millrace::io {
namespace {

using test::TemporaryFolder;
using test::WriteFile;

struct Outcome {
  std::vector<std::string> records;
  Status status;
  Loss loss;
};

Outcome ReadAll(const std::string& path, BlockOptions options = {}) {
  Outcome outcome;
  auto reader = RecordReader::Open(path, options);
  outcome.status = reader.status();
  RecordView record;
  while (outcome.status.ok()) {
    const Result<bool> more = reader->Next(record);
    outcome.status = more.status();
    if (!more.ok() || !*more) break;
    outcome.records.emplace_back(record.bytes);
  }
  if (reader.ok()) outcome.loss = reader->loss();
  return outcome;
}

BlockOptions Skipping(size_t block_bytes = 256 << 10) {
  return {.on_corrupt = OnCorrupt::kSkip, .block_bytes = block_bytes};
}

std::vector<std::string> SomeRecords() {
  std::vector<std::string> records = {"first", "", std::string(300, 'x'), "a\nb",
                                      std::string("\0\1\2", 3)};
  Random random(11);
  for (int i = 0; i < 5; ++i) {
    std::string noise(random.Below(40), ' ');
    for (char& c : noise) c = static_cast<char>(random.Next());
    records.push_back(noise);
  }
  return records;
}

std::string Frames(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) AppendFrame(record, bytes);
  return bytes;
}

// Where each frame begins, and the end.
std::vector<size_t> FrameOffsets(const std::vector<std::string>& records) {
  std::vector<size_t> offsets = {0};
  for (const std::string& r : records) {
    offsets.push_back(offsets.back() + kRecordHeaderBytes + r.size() + kRecordFooterBytes);
  }
  return offsets;
}

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
  EXPECT_EQ(directory.message(), folder.path() + ": expected a file, found a directory");
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

// Cut at every byte: what is whole is delivered; the cut record is an error that names its offset,
// or one loss.
TEST(RecordReader, TruncatedAnywhereIsDataLossAtTheCutRecord) {
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
    EXPECT_EQ(skipped.loss.events, at_boundary ? 0u : 1u);
    EXPECT_EQ(skipped.loss.bytes, size - offsets[whole]);
  }
}

TEST(RecordReader, AnyFlippedBitIsFoundAndSkippingLosesOnlyItsRecord) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  const std::string bytes = Frames(records);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 3) {
    SCOPED_TRACE(bit);
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(folder / "bad", damaged);
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
    EXPECT_EQ(skipped.loss.events, 1u);
    EXPECT_EQ(skipped.loss.bytes, offsets[hit + 1] - offsets[hit]);
  }
}

TEST(RecordReader, AnyMissingByteLosesOnlyItsRecord) {
  const TemporaryFolder folder;
  const auto records = SomeRecords();
  const auto offsets = FrameOffsets(records);
  const std::string bytes = Frames(records);
  for (size_t at = 0; at < bytes.size(); ++at) {
    SCOPED_TRACE(at);
    std::string damaged = bytes;
    damaged.erase(at, 1);
    WriteFile(folder / "bad", damaged);
    size_t hit = 0;
    while (offsets[hit + 1] <= at) ++hit;
    // A byte that equals its successor across the frame's end may be taken for the next record's.
    const Outcome skipped = ReadAll(folder / "bad", Skipping(64));
    std::vector<std::string> rest = records;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(hit));
    if (skipped.records != records) {
      EXPECT_EQ(skipped.records, rest);
    }
    EXPECT_EQ(skipped.loss.events, skipped.records == records ? 0u : 1u);
  }
}

TEST(RecordReader, TwoDamagedNeighboursAreTwoLosses) {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {"aaaa", "bbbb", "cccc", "dddd"};
  std::string bytes = Frames(records);
  const auto offsets = FrameOffsets(records);
  bytes[offsets[1] + 12] ^= 1;
  bytes[offsets[2] + 12] ^= 1;
  WriteFile(folder / "bad", bytes);
  std::vector<std::string> messages;
  BlockOptions options = Skipping();
  options.on_loss = [&](const std::string& message) { messages.push_back(message); };
  const Outcome outcome = ReadAll(folder / "bad", options);
  EXPECT_EQ(outcome.records, (std::vector<std::string>{"aaaa", "dddd"}));
  EXPECT_EQ(outcome.loss.events, 2u);
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
    EXPECT_EQ(reader.loss().events, 1u);
    EXPECT_LT(reads, 250);
  }
}

TEST(RecordReader, GarbageBetweenRecordsIsPassedOver) {
  const TemporaryFolder folder;
  Random random(5);
  std::string garbage;
  for (int i = 0; i < 1000; ++i) garbage += static_cast<char>(random.Next());
  WriteFile(folder / "bad", Frames({"one"}) + garbage + Frames({"two", "three"}));
  const Outcome outcome = ReadAll(folder / "bad", Skipping(128));
  EXPECT_EQ(outcome.records, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(outcome.loss.bytes, garbage.size());
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

TEST(RecordReader, RecordsLargerThanABlockArrive) {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {"small", std::string(3 << 20, 'L'), "tail",
                                            std::string(700000, 'M')};
  WriteFile(folder / "big", Frames(records));
  EXPECT_EQ(ReadAll(folder / "big").records, records);
  const Status refused = ReadAll(folder / "big", {.max_record_bytes = 1 << 20}).status;
  EXPECT_NE(refused.message().find("record length: expected at most 1048576, found 3145728"),
            std::string::npos);
}

TEST(RecordReader, DamagedCompressionKeepsWhatCameBefore) {
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
      EXPECT_EQ(skipped.loss.events, 1u);
      EXPECT_EQ(skipped.records, failed.records);
      EXPECT_TRUE(std::equal(failed.records.begin(), failed.records.end(), records.begin()));
    }
    std::string damaged = bytes;
    damaged[bytes.size() / 2] ^= 0x55;
    WriteFile(folder / "bad", damaged);
    EXPECT_EQ(ReadAll(folder / "bad").status.code(), Code::kCorrupt);
  }
}

TEST(RecordReader, RandomDamageNeverCrashesOrHangs) {
  const TemporaryFolder folder;
  const std::string bytes = Frames(SomeRecords());
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string damaged = bytes;
    for (uint64_t i = 0; i <= random.Below(6); ++i) {
      const size_t at = random.Below(damaged.size());
      switch (random.Below(3)) {
        case 0:
          damaged[at] = static_cast<char>(random.Next());
          break;
        case 1:
          damaged.erase(at, random.Below(20));
          break;
        default:
          damaged.insert(at, bytes.substr(random.Below(bytes.size()), random.Below(50)));
      }
      if (damaged.empty()) damaged = "x";
    }
    WriteFile(folder / "bad", damaged);
    const Outcome skipped = ReadAll(folder / "bad", Skipping(1 + random.Below(200)));
    EXPECT_TRUE(skipped.status.ok() || skipped.status.code() == Code::kCorrupt)
        << skipped.status.message();
    EXPECT_EQ(ReadAll(folder / "bad", Skipping(1 + random.Below(200))).records, skipped.records);
  }
}

TEST(RecordReader, FileThatIsSomethingElseIsSaidToBe) {
  const TemporaryFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"1 3:0.5 7:1\n", "libsvm text"},
      {"\n# numbers\n-1 |f a b:2\n", "vw text"},
      {"1" + std::string(39, '\t') + "\n", "criteo text"},
      {"user,item,clicked\n1,2,0\n", "text: expected TFRecords"},
      {std::string("\0\0\x08\x03\0\0\0\x01", 8) + "\0\0\0", "an IDX file"},
      {"\xff\xd8\xff\xe0 and the rest of it", "a JPEG image"},
      {"BZh91AY&SY and so on", "bzip2 data"},
      {"PAR1 and so on and on", "a Parquet file"},
  };
  for (const auto& [bytes, what] : cases) {
    WriteFile(folder / "a", bytes);
    const Status status = ReadAll(folder / "a").status;
    EXPECT_EQ(status.code(), Code::kCorrupt) << what;
    EXPECT_NE(status.message().find("; the file looks like " + what), std::string::npos)
        << status.message();
  }
  WriteFile(folder / "a", Frames({"one"}) + "text where a header should be");
  EXPECT_EQ(ReadAll(folder / "a").status.message().find("looks like"), std::string::npos);
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

}  // namespace
}  // namespace millrace::io
