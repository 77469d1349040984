// SPDX-License-Identifier: Apache-2.0
#include "io/state/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

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

TEST(Manifest, CheckpointsOfServersAreRefusedForOneProcess) {
  const TemporaryFolder folder;
  EXPECT_TRUE(CheckNoShards(folder.path()).ok());
  ASSERT_TRUE(
      FolderClaim::Take(folder.path(), {.epoch = 1, .owner = 5, .shards = 2, .checkpoint = 7})
          .ok());
  const Status refused = CheckNoShards(folder.path());
  EXPECT_NE(refused.message().find("has checkpoints of 2 servers"), std::string::npos);
}

}  // namespace
}  // namespace millrace::io
