// SPDX-License-Identifier: Apache-2.0
#include "io/state/checkpoint_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

namespace fs = std::filesystem;
using test::WriteFile;

TEST(CheckpointFolder, OnlyOwnRegularFilesAreRemoved) {
  const test::TemporaryFolder folder;
  for (const uint64_t steps : {1, 2, 3, 4}) WriteFile(CheckpointPath(folder.path(), steps), "x");
  WriteFile(folder / "checkpoint-7", "not a name of ours");
  WriteFile(folder / "foreign", "x");
  fs::create_symlink(folder / "foreign", CheckpointPath(folder.path(), 5));
  fs::create_directory(CheckpointPath(folder.path(), 6));
  WriteFile(CheckpointPath(folder.path(), 3) + ".tmp-1-0", "x");
  RemoveTemporaryFiles(folder.path());
  RemoveOtherCheckpoints(folder.path(), 4, 1);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"checkpoint-000000000003", "checkpoint-000000000004",
                                         "checkpoint-000000000005", "checkpoint-000000000006",
                                         "checkpoint-7", "foreign"}));
}

TEST(CheckpointFolder, NothingIsRemovedBehindALink) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "foreign");
  WriteFile(CheckpointPath(folder / "foreign", 1), "x");
  WriteFile(CheckpointPath(folder / "foreign", 1) + ".tmp-1-0", "x");
  fs::create_directory_symlink(folder / "foreign", folder / "checkpoints");
  RemoveTemporaryFiles(folder / "checkpoints");
  RemoveOtherCheckpoints(folder / "checkpoints", 9, 0);
  EXPECT_TRUE(fs::exists(CheckpointPath(folder / "foreign", 1)));
  EXPECT_TRUE(fs::exists(CheckpointPath(folder / "foreign", 1) + ".tmp-1-0"));
  EXPECT_EQ(MakeRealFolder(folder / "checkpoints").message(),
            folder / "checkpoints" + ": expected a folder, found a symbolic link");
  EXPECT_TRUE(MakeRealFolder(folder / "new/deep").ok());
  EXPECT_TRUE(MakeRealFolder(folder / "new/deep").ok());
  EXPECT_FALSE(MakeRealFolder(CheckpointPath(folder / "foreign", 1)).ok()) << "a file";
}

TEST(CheckpointFolder, FifoIsNoCheckpoint) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(CheckpointPath(folder.path(), 1).c_str(), 0600), 0);
  WriteFile(CheckpointPath(folder.path(), 2), "x");
  const auto files = ListCheckpoints(folder.path());
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ(files->front().steps, 2u);
}

}  // namespace
}  // namespace millrace::io
