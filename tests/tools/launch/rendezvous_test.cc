// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

namespace fs = std::filesystem;

Rank RankOf(size_t rank, const std::string& attempt = "0") {
  return {.rank = rank, .size = 2, .job = "a/1", .attempt = attempt, .starter = "srun"};
}

Rendezvous Opened(const std::string& folder, const Rank& rank) {
  Result<Rendezvous> opened = Rendezvous::Open(folder, rank);
  CHECK(opened.ok());
  return std::move(*opened);
}

TEST(Rendezvous, NotesAreVisibleImmediatelyAndRemovedByTheLastRank) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "deep/job-srun_a_1";
  {
    Rendezvous other = Opened(folder / "deep", RankOf(1));
    EXPECT_FALSE(*other.Meet()) << "rank 0 is missing";
    Rendezvous zero = Opened(folder / "deep", RankOf(0));
    ASSERT_TRUE(*zero.Meet());
    ASSERT_TRUE(*other.Meet());
    EXPECT_FALSE(zero.Read("note"));
    zero.ClearWatch();
    ASSERT_TRUE(other.Post("note", "text").ok());
    pollfd watch = {zero.watch(), POLLIN, 0};
    EXPECT_EQ(::poll(&watch, 1, 10000), 1);
    zero.ClearWatch();
    EXPECT_EQ(::poll(&watch, 1, 0), 0);
    EXPECT_EQ(zero.Read("note"), "text");
    EXPECT_EQ(zero.Names("no"), std::vector<std::string>{"note"});
    for (const auto& entry : fs::recursive_directory_iterator(folder / "deep")) {
      EXPECT_EQ(entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all),
                fs::perms::none)
          << entry.path();
    }
    { const Rendezvous left = std::move(other); }
    EXPECT_EQ(zero.Read("note"), "text") << "other ranks may still need it";
  }
  EXPECT_FALSE(fs::exists(path));
}

// What killed ranks leave behind is a copy of the folder while they ran.
TEST(Rendezvous, NotesOfAnEarlierStartAreNotBelieved) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "job-srun_a_1";
  {
    Rendezvous one = Opened(folder.path(), RankOf(1));
    Rendezvous zero = Opened(folder.path(), RankOf(0));
    ASSERT_TRUE(*zero.Meet());
    fs::copy(path, folder / "killed", fs::copy_options::recursive);
    ASSERT_TRUE(*one.Meet());
    ASSERT_TRUE(zero.Post("token", "old").ok());
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.is_directory())
        fs::copy(entry.path(), folder / "killed" / entry.path().filename(),
                 fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
  }
  fs::rename(folder / "killed", path);
  fs::permissions(path, fs::perms::owner_all);
  Rendezvous one = Opened(folder.path(), RankOf(1));
  EXPECT_FALSE(*one.Meet()) << "the answer of the earlier rank 0 is not for this rank";
  EXPECT_FALSE(one.Read("token"));
  Rendezvous zero = Opened(folder.path(), RankOf(0));
  ASSERT_TRUE(*zero.Meet());
  ASSERT_TRUE(*one.Meet());
  EXPECT_FALSE(one.Read("token"));
  ASSERT_TRUE(zero.Post("token", "new").ok());
  EXPECT_EQ(one.Read("token"), "new");
  size_t starts = 0;
  for (const auto& entry : fs::directory_iterator(path)) starts += entry.is_directory();
  EXPECT_EQ(starts, 1u) << "the notes of the earlier start are removed";
}

TEST(Rendezvous, RanksOfAnotherAttemptGetNoAnswer) {
  const test::TemporaryFolder folder;
  Rendezvous late = Opened(folder.path(), RankOf(1, "0"));
  Rendezvous zero = Opened(folder.path(), RankOf(0, "1"));
  ASSERT_TRUE(*zero.Meet());
  EXPECT_FALSE(*late.Meet());
  Rendezvous one = Opened(folder.path(), RankOf(1, "1"));
  ASSERT_TRUE(*zero.Meet());
  EXPECT_TRUE(*one.Meet());
  EXPECT_FALSE(*late.Meet());
}

TEST(Rendezvous, FolderThatIsNotPrivateIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "job-srun_a_1";
  const auto refusal = [&] {
    return Rendezvous::Open(folder.path(), RankOf(0)).status().message();
  };
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read);
  EXPECT_EQ(refusal(), path + ": expected a folder that only its owner can use (chmod 700)");
  fs::remove(path);
  fs::create_directory(folder / "other");
  fs::permissions(folder / "other", fs::perms::owner_all);
  fs::create_directory_symlink(folder / "other", path);
  EXPECT_NE(refusal().find(path + ": cannot open the folder"), std::string::npos) << refusal();
  EXPECT_TRUE(fs::is_empty(folder / "other"));
  fs::remove(path);
  if (::geteuid() != 0) return;  // only root can make a folder of another user
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(), path + ": expected a folder of user 0, found one of user 65534");
}

}  // namespace
}  // namespace millrace::launch
