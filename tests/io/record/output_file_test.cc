// SPDX-License-Identifier: Apache-2.0
#include "io/record/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

namespace fs = std::filesystem;

size_t EntriesIn(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class OutputFileTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "out"; }

  const test::TemporaryFolder folder_;
};

TEST_F(OutputFileTest, NothingAppearsBeforeCommit) {
  auto file = OutputFile::Create(path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->Write("new").ok());
  EXPECT_FALSE(fs::exists(path()));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(test::ReadFile(path()), "new");
  EXPECT_EQ(EntriesIn(folder_.path()), 1u);
}

TEST_F(OutputFileTest, AbandonedFileLeavesTheOldOneAndNoOther) {
  std::ofstream(path()) << "old";
  {
    auto file = OutputFile::Create(path());
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new").ok());
  }
  EXPECT_EQ(test::ReadFile(path()), "old");
  EXPECT_EQ(EntriesIn(folder_.path()), 1u);
}

TEST_F(OutputFileTest, TwoWritersOfOnePathDoNotMix) {
  auto first = OutputFile::Create(path());
  auto second = OutputFile::Create(path());
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->Write("first").ok());
  ASSERT_TRUE(second->Write("second, longer").ok());
  ASSERT_TRUE(second->Commit().ok());
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(test::ReadFile(path()), "first");
}

TEST_F(OutputFileTest, AssignmentAbandonsTheTarget) {
  auto first = OutputFile::Create(path());
  auto second = OutputFile::Create(path());
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(second->Write("second").ok());
  *first = std::move(*second);
  EXPECT_EQ(EntriesIn(folder_.path()), 1u);
  ASSERT_TRUE(first->Commit().ok());
  EXPECT_EQ(test::ReadFile(path()), "second");
}

TEST_F(OutputFileTest, SymbolicLinkStaysOne) {
  const fs::path target = folder_ / "target";
  std::ofstream(target) << "old";
  fs::create_symlink(target, path());
  auto file = OutputFile::Create(path());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("new").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(test::ReadFile(target), "new");
}

TEST_F(OutputFileTest, NewFileReplacesALink) {
  const fs::path target = folder_ / "target";
  std::ofstream(target) << "old";
  fs::create_symlink(target, path());
  auto file = OutputFile::CreateNew(path());
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("new").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_FALSE(fs::is_symlink(path()));
  EXPECT_EQ(test::ReadFile(path()), "new");
  EXPECT_EQ(test::ReadFile(target), "old");
  EXPECT_FALSE(OutputFile::CreateNew(folder_.path()).ok());
}

TEST_F(OutputFileTest, ModeFollowsTheUmask) {
  const mode_t old = umask(027);
  auto file = OutputFile::Create(path());
  umask(old);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0640));
}

TEST_F(OutputFileTest, MissingFolderIsNamed) {
  const std::string missing = folder_ / "no/such";
  const auto file = OutputFile::Create(missing);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(), "cannot create " + missing + ": No such file or directory");
}

TEST_F(OutputFileTest, FolderIsRefused) {
  const auto file = OutputFile::Create(folder_.path());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(), "cannot create " + folder_.path() + ": Is a directory");
}

TEST_F(OutputFileTest, EmptyNameIsRefused) { EXPECT_FALSE(OutputFile::Create("").ok()); }

TEST_F(OutputFileTest, FullDiskIsNamed) {
  auto file = OutputFile::Create("/dev/full");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Write("x").message(), "cannot write /dev/full: No space left on device");
}

// A limit on the file size fails in the middle of a write, as a disk does that fills up.
TEST_F(OutputFileTest, WriteThatStopsHalfWayLeavesNothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {.rlim_cur = 1000, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    auto file = OutputFile::Create(path());
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->Write(std::string(5000, 'x')).message(),
              "cannot write " + path() + ": File too large");
  }
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(EntriesIn(folder_.path()), 0u);
}

TEST_F(OutputFileTest, FifoIsWrittenToDirectly) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  std::string received;
  std::jthread reader([&] { received = test::ReadFile(path()); });
  auto file = OutputFile::Create(path());
  ASSERT_TRUE(file.ok());
  const std::string sent(300'000, 'f');  // more than a pipe holds
  ASSERT_TRUE(file->Write(sent).ok());
  ASSERT_TRUE(file->Commit().ok());
  reader.join();
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(fs::is_fifo(path()));
}

}  // namespace
}  // namespace millrace::io
