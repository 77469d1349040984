// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

namespace fs = std::filesystem;

TEST(TokenFile, OnlyItsOwnerCanReadItAndTheObjectRemovesIt) {
  std::string path;
  {
    const Result<TokenFile> file = TokenFile::Create("secret");
    ASSERT_TRUE(file.ok()) << file.status().message();
    path = file->path();
    struct stat info;
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    ASSERT_EQ(::stat(fs::path(path).parent_path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_EQ(test::ReadFile(path), "secret\n");
  }
  EXPECT_FALSE(fs::exists(fs::path(path).parent_path()));
}

TEST(TokenFile, TokensDiffer) {
  const std::string one = *RandomToken(), other = *RandomToken();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace millrace::launch
