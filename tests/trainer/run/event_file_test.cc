// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

// What an independent reader of the format finds; "bad" when it finds a mistake.
std::string Listing(const std::string& path) {
  const TemporaryFolder folder;
  const std::string command = "python3 -B " MILLRACE_SOURCE_DIR
                              "/tests/trainer/run/list_events.py " +
                              path + " >" + (folder / "listing") + " 2>&1";
  return std::system(command.c_str()) == 0 ? ReadFile(folder / "listing") : "bad";
}

EventFile Created(const EventFileOptions& options) {
  auto file = EventFile::Create(options);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(*file);
}

void Add(EventFile& file, double wall_time_s, uint64_t step, std::vector<Scalar> scalars) {
  EXPECT_TRUE(file.Add(wall_time_s, step, scalars).ok());
}

TEST(EventFile, AnIndependentReaderFindsWhatWasWritten) {
  const TemporaryFolder folder;
  EventFile file = Created({.folder = folder.path(), .host = "mill", .wall_time_s = 1700000000.75});
  EXPECT_EQ(file.path(), folder / "events.out.tfevents.1700000000.mill");
  Add(file, 1700000001.5, 200, {{"train/loss", 0.5f}, {"test/auc", 0.75f}});
  Add(file, 1700000002.5, uint64_t{1} << 40, {{std::string(300, 'x'), -1e30f}});
  EXPECT_EQ(Listing(file.path()),
            "1700000000.750000\t0\tversion\tbrain.Event:2\n"
            "1700000000.750000\t0\tsession\t1\n"
            "1700000001.500000\t200\tscalar\ttrain/loss\t0.5\n"
            "1700000001.500000\t200\tscalar\ttest/auc\t0.75\n"
            "1700000002.500000\t1099511627776\tscalar\t" +
                std::string(300, 'x') + "\t-1.00000002e+30\n");
}

TEST(EventFile, AGraphIsFoundWithItsNodes) {
  const TemporaryFolder folder;
  EventFile file = Created({.folder = folder.path(), .host = "mill", .wall_time_s = 1});
  ASSERT_TRUE(file.AddGraph(2, std::string_view("\x0a\x06\x0a\x01x\x12\x01y", 8)).ok());
  EXPECT_EQ(Listing(file.path()),
            "1.000000\t0\tversion\tbrain.Event:2\n"
            "1.000000\t0\tsession\t1\n"
            "2.000000\t0\tgraph\tx:y\n");
}

TEST(EventFile, EveryAddIsInTheFileAtOnce) {
  const TemporaryFolder folder;
  EventFile file = Created({.folder = folder.path(), .host = "mill", .wall_time_s = 1});
  for (uint64_t step = 1; step < 5; ++step) {
    const std::string before = ReadFile(file.path());
    Add(file, 2, step, {{"a", 1}});
    const std::string after = ReadFile(file.path());
    EXPECT_GT(after.size(), before.size());
    EXPECT_EQ(after.substr(0, before.size()), before) << "only ever appended to";
  }
}

TEST(EventFile, TruncatedFileReadsUpToItsLastWholeRecord) {
  const TemporaryFolder folder;
  EventFile file = Created({.folder = folder.path(), .host = "mill", .wall_time_s = 1});
  Add(file, 2, 1, {{"a", 1}});
  const std::string whole = ReadFile(file.path());
  WriteFile(folder / "cut", whole.substr(0, whole.size() - 3));
  EXPECT_EQ(Listing(folder / "cut"),
            "1.000000\t0\tversion\tbrain.Event:2\n1.000000\t0\tsession\t1\ntorn\n");
}

TEST(EventFile, ResumedRunRecordsTheStepItResumesFrom) {
  const TemporaryFolder folder;
  const EventFile file =
      Created({.folder = folder.path(), .host = "mill", .wall_time_s = 9, .resume_step = 400});
  EXPECT_EQ(Listing(file.path()),
            "9.000000\t0\tversion\tbrain.Event:2\n"
            "9.000000\t401\tsession\t1\n");
}

TEST(EventFile, NeverTouchesAnEarlierFile) {
  const TemporaryFolder folder;
  const EventFileOptions options = {.folder = folder.path(), .host = "a/b", .wall_time_s = 5};
  const std::string first = Created(options).path();
  const std::string bytes = ReadFile(first);
  EXPECT_EQ(first, folder / "events.out.tfevents.0000000005.a_b");
  EXPECT_EQ(Created(options).path(), first + ".1");
  EXPECT_EQ(Created(options).path(), first + ".2");
  EXPECT_EQ(ReadFile(first), bytes);
}

TEST(EventFile, MissingFolderIsAnError) {
  const auto file = EventFile::Create({.folder = "/nowhere", .host = "mill", .wall_time_s = 5});
  EXPECT_EQ(file.status().code(), Code::kIo);
  EXPECT_NE(file.status().message().find("/nowhere/events.out"), std::string::npos);
}

// TensorFlow wrote this file: our bytes for the same events must be its bytes.
TEST(EventFile, WritesTheBytesThatTensorFlowWrites) {
  SKIP_WITHOUT_SHARED_DATA();
  const std::string real =
      ReadFile(MILLRACE_SHARED_DATA "/tfevents/guildai_events.out.tfevents.1548797801.omaha");
  const TemporaryFolder folder;
  EventFile file = Created({.folder = folder.path(), .host = "omaha", .wall_time_s = 1548797801});
  const std::string head = ReadFile(file.path());
  constexpr size_t kVersionRecord = 16 + 24;
  EXPECT_EQ(head.substr(0, kVersionRecord), real.substr(0, kVersionRecord));
  Add(file, std::bit_cast<double>(uint64_t{0x41d71431dd2c41ff}), 1,
      {{"acc", std::bit_cast<float>(0x3f781062u)}});
  Add(file, 0, 0, {});
  const std::string event = ReadFile(file.path()).substr(head.size(), 16 + 25);
  EXPECT_NE(real.find(event), std::string::npos);
}

TEST(EventFile, TheReaderUnderstandsRealFiles) {
  SKIP_WITHOUT_SHARED_DATA();
  for (const auto& entry : std::filesystem::directory_iterator(MILLRACE_SHARED_DATA "/tfevents")) {
    const std::string listing = Listing(entry.path().string());
    EXPECT_NE(listing.find("version\tbrain.Event:2"), std::string::npos) << entry.path();
    EXPECT_NE(listing.find("scalar\t"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace millrace::trainer
