// SPDX-License-Identifier: Apache-2.0
#include "io/state/manifest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "io/state/checkpoint_folder.h"
#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

TEST(Manifest, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  const auto missing = ReadManifest(folder / "none");
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->epoch, 0u);
  auto claim = FolderClaim::Take(folder / "c", {.epoch = 3, .owner = ~uint64_t{0}, .shards = 2});
  ASSERT_TRUE(claim.ok()) << claim.status().message();
  ASSERT_TRUE(claim
                  ->Change([](Manifest& manifest) {
                    manifest.checkpoint = 0;
                    return Status();
                  })
                  .ok());
  const auto read = ReadManifest(folder / "c");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->epoch, 3u);
  EXPECT_EQ(read->owner, ~uint64_t{0});
  EXPECT_EQ(read->shards, 2u);
  EXPECT_EQ(read->checkpoint, 0u);
  EXPECT_FALSE(read->previous);
}

TEST(Manifest, EveryTruncationAndFlippedBitIsCorrupt) {
  const TemporaryFolder folder;
  ASSERT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5, .checkpoint = 7}).ok());
  const std::string path = folder / "manifest";
  const std::string good = ReadFile(path);
  for (size_t size = 0; size < good.size(); ++size) {
    WriteFile(path, good.substr(0, size));
    EXPECT_FALSE(ReadManifest(folder.path()).ok()) << size;
  }
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    WriteFile(path, bad);
    EXPECT_FALSE(ReadManifest(folder.path()).ok()) << bit;
  }
}

TEST(FolderClaim, TheLaterEpochOwnsTheFolder) {
  const TemporaryFolder folder;
  auto first = FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5});
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 6}).ok());
  ASSERT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 2, .owner = 6}).ok());
  bool called = false;
  const auto change = [&](Manifest&) {
    called = true;
    return Status();
  };
  const Status refused = first->Change(change);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_FALSE(called);
  EXPECT_NE(refused.message().find("epoch 2 of its run now"), std::string::npos);
  EXPECT_FALSE(FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5}).ok());
  // Where a process is known to have exited, another one goes on in its place.
  EXPECT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 2, .owner = 7}, /*take_over=*/true).ok());
}

TEST(FolderClaim, AFailedChangeLeavesTheManifestAsItWas) {
  const TemporaryFolder folder;
  auto claim = FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5, .checkpoint = 7});
  ASSERT_TRUE(claim.ok());
  EXPECT_FALSE(claim
                   ->Change([](Manifest& manifest) {
                     manifest.checkpoint = 8;
                     return Corrupt("the disk is full");
                   })
                   .ok());
  EXPECT_EQ(claim->manifest().checkpoint, 7u);
  EXPECT_EQ(ReadManifest(folder.path())->checkpoint, 7u);
}

TEST(Manifest, ProgressThatCannotBeUsedIsNotTakenForNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadManifestToResume(folder.path())->epoch, 0u);
  std::filesystem::create_directories(PartFolder(folder.path(), 1));
  WriteFile(CheckpointPath(PartFolder(folder.path(), 1), 7), "");
  const Status without = ReadManifestToResume(folder.path()).status();
  EXPECT_EQ(without.code(), Code::kInvalid);
  EXPECT_NE(without.message().find("no manifest that names one"), std::string::npos);
  ASSERT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5}).ok());
  EXPECT_TRUE(ReadManifestToResume(folder.path()).ok());
  WriteFile(folder / "manifest", "damaged");
  EXPECT_EQ(ReadManifestToResume(folder.path()).status().code(), Code::kInvalid);
}

TEST(FolderClaim, PartsOfShardsThatNoCheckpointHasAnyMoreAreRemoved) {
  const TemporaryFolder folder;
  auto claim = FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5});
  ASSERT_TRUE(claim.ok());
  const auto part = [&](uint64_t shard) {
    return CheckpointPath(PartFolder(folder.path(), shard), 1);
  };
  for (uint64_t shard = 0; shard < 3; ++shard) {
    std::filesystem::create_directories(PartFolder(folder.path(), shard));
    WriteFile(part(shard), "");
  }
  const auto temporary = [&](uint64_t shard) {
    return PartFolder(folder.path(), shard) + "/manifest.tmp-29034-0";
  };
  for (uint64_t shard = 0; shard < 3; ++shard) WriteFile(temporary(shard), "");
  const int in_use = ::open(PartFolder(folder.path(), 2).c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(in_use, LOCK_EX), 0);
  ASSERT_TRUE(claim->CommitCheckpoint(1, 3).ok());
  ASSERT_TRUE(claim->CommitCheckpoint(2, 1).ok());
  EXPECT_TRUE(std::filesystem::exists(part(2))) << "of the checkpoint before";
  EXPECT_EQ(claim->manifest().previous_shards, 3u);
  ASSERT_TRUE(claim->CommitCheckpoint(3, 1).ok());
  EXPECT_FALSE(std::filesystem::exists(part(1)) || std::filesystem::exists(part(2)));
  EXPECT_TRUE(std::filesystem::exists(temporary(0))) << "its server's to remove";
  EXPECT_FALSE(std::filesystem::exists(temporary(1)));
  EXPECT_TRUE(std::filesystem::exists(temporary(2))) << "a process is writing it";
  ::close(in_use);
  ASSERT_TRUE(claim->CommitCheckpoint(4, 1).ok());
  EXPECT_FALSE(std::filesystem::exists(temporary(2)));
}

// The process was killed while it wrote them.
TEST(FolderClaim, TheNextOwnerRemovesTemporaryFiles) {
  const TemporaryFolder folder;
  ASSERT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 2, .owner = 5}).ok());
  const std::string killed[] = {folder / "manifest.tmp-29034-0",
                                CheckpointPath(folder.path(), 7) + ".tmp-29034-0"};
  const std::string others[] = {folder / "manifest.txt", folder / "old-manifest.tmp-1-0"};
  for (const std::string& path : killed) WriteFile(path, "");
  for (const std::string& path : others) WriteFile(path, "");
  EXPECT_FALSE(FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 6}).ok());
  for (const std::string& path : killed) {
    EXPECT_TRUE(std::filesystem::exists(path)) << "of the folder's owner, which may be alive";
  }
  ASSERT_TRUE(FolderClaim::Take(folder.path(), {.epoch = 3, .owner = 6}).ok());
  for (const std::string& path : killed) EXPECT_FALSE(std::filesystem::exists(path)) << path;
  for (const std::string& path : others) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(ReadManifest(folder.path())->epoch, 3u);
}

}  // namespace
}  // namespace millrace::io
