// SPDX-License-Identifier: Apache-2.0
#include "io/state/state_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "io/base/crc32c.h"
#include "io/base/random.h"
#include "io/record/record_format.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

struct Entry {
  uint64_t key;
  std::vector<float> state;
};

std::vector<Entry> RandomEntries(uint64_t seed, size_t count, size_t floats) {
  Random random(seed);
  std::vector<Entry> entries;
  uint64_t key = random.Below(10);
  for (size_t i = 0; i < count; ++i) {
    Entry& entry = entries.emplace_back(Entry{key, {}});
    for (size_t f = 0; f < floats; ++f) {
      const auto bits = static_cast<uint32_t>(random.Next());
      float number;
      std::memcpy(&number, &bits, sizeof number);
      entry.state.push_back(number);
    }
    key += 1 + random.Below(random.Below(4) == 0 ? uint64_t{1} << 40 : 5);
  }
  return entries;
}

void Write(const std::string& path, const std::vector<Entry>& entries, StateOptions options,
           const StateFields& fields = {}) {
  auto writer = StateWriter::Create(path, fields, options);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const Entry& entry : entries) writer->Add(entry.key, entry.state);
  const Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.message();
}

struct Content {
  Status status;
  std::vector<Entry> entries;
};

Content Read(const std::string& path) {
  Content content;
  auto reader = StateReader::Open(path);
  content.status = reader.status();
  StateBlock block;
  while (content.status.ok()) {
    const auto more = reader->Next(block);
    content.status = more.status();
    if (!more.ok() || !*more) break;
    for (size_t i = 0; i < block.size(); ++i) {
      const auto state = block.state(i);
      content.entries.push_back({block.keys[i], {state.begin(), state.end()}});
    }
  }
  return content;
}

void ExpectSame(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].key, b[i].key);
    ASSERT_EQ(a[i].state.size(), b[i].state.size());
    ASSERT_EQ(0, std::memcmp(a[i].state.data(), b[i].state.data(), a[i].state.size() * 4));
  }
}

TEST(StateFile, EntriesComeBackBitByBit) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "state";
  for (const size_t floats : {1, 3, 64}) {
    for (const size_t count : {0, 1, 2, 700}) {
      for (const size_t block_bytes : {1, 100, 1 << 20}) {
        SCOPED_TRACE(std::to_string(floats) + " " + std::to_string(count));
        if (block_bytes == 1 && count > 2) continue;
        const auto entries = RandomEntries(count + floats, count, floats);
        Write(path, entries, {.floats_per_entry = floats, .block_bytes = block_bytes});
        const Content content = Read(path);
        ASSERT_TRUE(content.status.ok()) << content.status.message();
        ExpectSame(content.entries, entries);
      }
    }
  }
}

TEST(StateFile, SixtyFourBitKeysRoundTrip) {
  const test::TemporaryFolder folder;
  const std::vector<Entry> entries = {
      {0, {1}}, {1, {2}}, {uint64_t{1} << 63, {3}}, {~uint64_t{0} - 1, {4}}, {~uint64_t{0}, {5}}};
  for (const size_t block_bytes : {1, 1000}) {
    Write(folder / "state", entries, {.block_bytes = block_bytes});
    ExpectSame(Read(folder / "state").entries, entries);
  }
}

TEST(StateFile, FieldsComeBackBitByBit) {
  const test::TemporaryFolder folder;
  StateFields fields;
  fields.Add("kind", "a model, with spaces ");
  fields.Add("empty", "");
  fields.AddUint("most", ~uint64_t{0});
  fields.AddDouble("third", 1.0 / 3);
  fields.AddDouble("least", 5e-324);
  fields.AddDouble("minus_zero", -0.0);
  fields.AddDouble("nan", std::numeric_limits<double>::quiet_NaN());
  fields.AddDouble("infinite", -std::numeric_limits<double>::infinity());
  Write(folder / "state", {}, {}, fields);
  const auto reader = StateReader::Open(folder / "state");
  ASSERT_TRUE(reader.ok());
  const StateFields& read = reader->fields();
  EXPECT_EQ(*read.Text("kind"), "a model, with spaces ");
  EXPECT_EQ(*read.Text("empty"), "");
  EXPECT_EQ(*read.Uint("most"), ~uint64_t{0});
  EXPECT_EQ(*read.Double("third"), 1.0 / 3);
  EXPECT_EQ(*read.Double("least"), 5e-324);
  EXPECT_TRUE(std::signbit(*read.Double("minus_zero")));
  EXPECT_TRUE(std::isnan(*read.Double("nan")));
  EXPECT_EQ(*read.Double("infinite"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.Text("other").status().message(), "header: expected a field other, found none");
  EXPECT_EQ(read.Uint("third").status().message(),
            "header field third: expected a whole number, found '0.3333333333333333'");
}

// A small file of two blocks.
std::string SmallFile(const std::string& path) {
  StateFields fields;
  fields.Add("kind", "model");
  fields.AddUint("num_features", 100);
  Write(path, {{1, {.5f}}, {7, {-1}}, {99, {2}}}, {.block_bytes = 8}, fields);
  return test::ReadFile(path);
}

TEST(StateFile, EveryTruncationIsCorruptAndSaysWhere) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole"), path = folder / "cut";
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    test::WriteFile(path, whole.substr(0, size));
    const Content content = Read(path);
    ASSERT_EQ(content.status.code(), Code::kCorrupt);
    EXPECT_NE(content.status.message().find(path + ": offset " + std::to_string(size) + ": "),
              std::string::npos)
        << content.status.message();
    EXPECT_NE(content.status.message().find("found the end of the file"), std::string::npos);
  }
}

TEST(StateFile, EveryFlippedBitIsCorruptAndNamesTheFile) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole"), path = folder / "flipped";
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    SCOPED_TRACE(bit);
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    test::WriteFile(path, bytes);
    const Content content = Read(path);
    ASSERT_EQ(content.status.code(), Code::kCorrupt);
    ASSERT_NE(content.status.message().find(path + ": offset "), std::string::npos);
  }
}

TEST(StateFile, BytesBehindTheEndAreCorrupt) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole");
  test::WriteFile(folder / "longer", whole + '\0');
  EXPECT_EQ(Read(folder / "longer").status.message(),
            (folder / "longer") + ": offset " + std::to_string(whole.size()) +
                ": expected the end of the file, found more bytes");
}

// Where the parts of a small file begin: header, block, block, end, and the end of the file.
std::vector<size_t> Parts(const std::string& bytes) {
  std::vector<size_t> parts = {0};
  size_t at = kStateHeaderBytes + LoadU32(&bytes[16]) + kStateCrcBytes;
  for (uint32_t entries = 1; entries > 0;) {
    parts.push_back(at);
    entries = LoadU32(&bytes[at]);
    at += kStateBlockHeaderBytes + kStateCrcBytes + (entries ? LoadU32(&bytes[at + 8]) : 8);
  }
  parts.push_back(at);
  return parts;
}

TEST(StateFile, LostAndSwappedBlocksAreCorrupt) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole"), path = folder / "changed";
  const std::vector<size_t> parts = Parts(whole);
  ASSERT_EQ(parts.size(), 5u);
  ASSERT_EQ(parts.back(), whole.size());
  const auto part = [&](size_t i) { return whole.substr(parts[i], parts[i + 1] - parts[i]); };
  test::WriteFile(path, part(0) + part(1) + part(3));
  EXPECT_EQ(Read(path).status.message(),
            path + ": offset " + std::to_string(parts[2]) + ": expected 3 entries in all, found 2");
  test::WriteFile(path, part(0) + part(2) + part(1) + part(3));
  EXPECT_NE(Read(path).status.message().find("expected ascending keys, found 1 after 99"),
            std::string::npos);
}

// Makes the CRC of the part [begin, end) right again.
void Repair(std::string& bytes, size_t begin, size_t end) {
  const size_t size = end - begin - kStateCrcBytes;
  StoreU32(&bytes[end - kStateCrcBytes], MaskedCrc32c(&bytes[begin], size));
}

TEST(StateFile, ImpossibleClaimsUnderARightCrcAreCorrupt) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole"), path = folder / "claim";
  const std::vector<size_t> parts = Parts(whole);
  for (const uint32_t claim : {0u, 1u, 3u, 1000u, 0x7fffffffu, 0xffffffffu}) {
    for (const size_t place : {8u, 12u, 16u}) {  // of the header
      SCOPED_TRACE(std::to_string(claim) + " at " + std::to_string(place));
      std::string bytes = whole;
      if (LoadU32(&bytes[place]) == claim) continue;
      StoreU32(&bytes[place], claim);
      Repair(bytes, 0, parts[1]);
      test::WriteFile(path, bytes);
      EXPECT_EQ(Read(path).status.code(), Code::kCorrupt);
    }
    for (const size_t place : {0u, 4u, 8u}) {  // of the first block
      SCOPED_TRACE(std::to_string(claim) + " in the block at " + std::to_string(place));
      std::string bytes = whole;
      StoreU32(&bytes[parts[1] + place], claim);
      Repair(bytes, parts[1], parts[2]);
      test::WriteFile(path, bytes);
      EXPECT_EQ(Read(path).status.code(), Code::kCorrupt);
    }
  }
}

// zstd has a checksum of its own; all that it lets pass is another way to write the same bytes.
TEST(StateFile, CorruptEntriesUnderARightCrcAreCorrupt) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "whole"), path = folder / "corrupt";
  const std::vector<Entry> entries = Read(folder / "whole").entries;
  const std::vector<size_t> parts = Parts(whole);
  size_t corrupt = 0;
  for (size_t at = parts[1] + kStateBlockHeaderBytes; at < parts[2] - kStateCrcBytes; ++at) {
    SCOPED_TRACE(at);
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    Repair(bytes, parts[1], parts[2]);
    test::WriteFile(path, bytes);
    const Content content = Read(path);
    corrupt += content.status.code() == Code::kCorrupt;
    if (content.status.ok()) ExpectSame(content.entries, entries);
  }
  EXPECT_GT(corrupt, 10u);
}

TEST(StateFile, FullDiskIsAnErrorThatNamesTheFile) {
  auto writer = StateWriter::Create("/dev/full", {}, {});
  if (!writer.ok()) {
    EXPECT_NE(writer.status().message().find("/dev/full: No space left"), std::string::npos);
    return;
  }
  const Status status = writer->Finish();
  EXPECT_NE(status.message().find("/dev/full: No space left"), std::string::npos);
}

TEST(StateFile, UnfinishedFileLeavesOnlyTheEarlierOne) {
  const test::TemporaryFolder folder;
  const std::string whole = SmallFile(folder / "state");
  {
    auto writer = StateWriter::Create(folder / "state", {}, {.block_bytes = 16});
    ASSERT_TRUE(writer.ok());
    for (const Entry& entry : RandomEntries(1, 1000, 1)) writer->Add(entry.key, entry.state);
  }
  EXPECT_EQ(test::ReadFile(folder / "state"), whole);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace millrace::io
