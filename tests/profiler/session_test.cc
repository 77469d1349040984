// SPDX-License-Identifier: Apache-2.0
#include "profiler/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "profiler/resources.h"
#include "tests/support/test_files.h"

namespace millrace::profiler {
namespace {

TEST(SessionTest, LeavesSamplesAndATrace) {
  const test::TemporaryFolder folder;
  Session session;
  ASSERT_EQ(
      session.Start({.run_dir = folder.path(), .process = "ps-1", .trace = true, .sample_ms = 5}),
      "");
  const int64_t begin = NowNs();
  while (NowNs() - begin < 100'000'000) TRACE_SCOPE("busy");
  ASSERT_EQ(session.Finish(), "");
  const std::string csv = test::ReadFile(folder / "resources-ps-1.csv");
  EXPECT_GE(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_NE(test::ReadFile(folder / "trace-ps-1.json").find("\"busy\""), std::string::npos);
}

TEST(RecentSpansTest, AreWrittenOncePerRequest) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "recent-worker-0.json";
  StartTracing();
  { TRACE_SCOPE("newest"); }
  {
    RecentSpans recent(folder.path(), "worker-0");
    recent.WriteIfRequested();
    EXPECT_FALSE(std::filesystem::exists(path)) << "there was no request";
    test::WriteFile(folder / kWatchedFile, "");
    recent.WriteIfRequested();
    EXPECT_NE(test::ReadFile(path).find("\"newest\""), std::string::npos);
    std::filesystem::remove(path);
    recent.WriteIfRequested();
    EXPECT_FALSE(std::filesystem::exists(path)) << "one reply per request";
    const auto time = std::filesystem::last_write_time(folder / kWatchedFile);
    std::filesystem::last_write_time(folder / kWatchedFile, time + std::chrono::seconds(1));
    recent.WriteIfRequested();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  StopTracing();
  EXPECT_FALSE(std::filesystem::exists(path)) << "left behind";
}

TEST(SessionTest, LinksInTheRunFolderAreReplaced) {
  const test::TemporaryFolder folder, elsewhere;
  test::WriteFile(elsewhere / "file", "precious");
  for (const char* name : {"resources-ps-1.csv", "trace-ps-1.json.tmp", "recent-ps-1.json.tmp"})
    std::filesystem::create_symlink(elsewhere / "file", folder / name);
  test::WriteFile(folder / kWatchedFile, "");
  Session session;
  ASSERT_EQ(
      session.Start({.run_dir = folder.path(), .process = "ps-1", .trace = true, .sample_ms = 5}),
      "");
  { TRACE_SCOPE("busy"); }
  ASSERT_EQ(session.Finish(), "");
  EXPECT_EQ(test::ReadFile(elsewhere / "file"), "precious");
  EXPECT_TRUE(test::ReadFile(folder / "resources-ps-1.csv").starts_with("steady_ns,"));
  EXPECT_NE(test::ReadFile(folder / "trace-ps-1.json").find("\"busy\""), std::string::npos);
}

TEST(SessionTest, SamplesGoOnWhenTheFileIsErased) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "resources-ps-0.csv";
  Session session;
  ASSERT_EQ(session.Start({.run_dir = folder.path(), .process = "ps-0", .sample_ms = 3600000}), "");
  // The sampler's thread takes its first sample when it starts.
  const auto lines = [&] {
    const std::string text = test::ReadFile(path);
    return std::count(text.begin(), text.end(), '\n');
  };
  for (int i = 0; i < 10000 && lines() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::filesystem::remove(path);
  ASSERT_EQ(session.Finish(), "");
  EXPECT_TRUE(test::ReadFile(path).starts_with(ResourcesCsvHeader()));
  EXPECT_EQ(lines(), 2);
}

TEST(SessionTest, StepWindowsAreParsedOrRefused) {
  TraceOptions options;
  EXPECT_EQ(ParseStepWindow("100:120", options), "");
  EXPECT_EQ(options.first_step, 100u);
  EXPECT_EQ(options.last_step, 120u);
  for (const char* wrong : {"", "5", "5:", ":5", "6:5", "a:b", "1:2:3", "-1:2"}) {
    EXPECT_NE(ParseStepWindow(wrong, options), "") << wrong;
  }
}

}  // namespace
}  // namespace millrace::profiler
