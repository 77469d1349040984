// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

TEST(Rendezvous, NotesAreVisibleImmediatelyAndRemovedByTheLastRank) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "deep/job-a_1";
  {
    const auto one = Rendezvous::Open(folder / "deep", "a/1", 0, 2);
    ASSERT_TRUE(one.ok()) << one.status().message();
    EXPECT_FALSE(one->Read("note"));
    {
      const auto other = Rendezvous::Open(folder / "deep", "a/1", 1, 2);
      ASSERT_TRUE(other.ok()) << other.status().message();
      ASSERT_TRUE(other->Post("note", "text").ok());
      pollfd watch = {one->watch(), POLLIN, 0};
      EXPECT_EQ(::poll(&watch, 1, 10000), 1);
      one->ClearWatch();
      EXPECT_EQ(::poll(&watch, 1, 0), 0);
      EXPECT_EQ(one->Read("note"), "text");
      EXPECT_EQ(one->Names("no"), std::vector<std::string>{"note"});
      struct stat info;
      ASSERT_EQ(::stat((path + "/note").c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, 0600u);
    }
    EXPECT_EQ(one->Read("note"), "text") << "other ranks may still need it";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace millrace::launch
