// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

namespace fs = std::filesystem;

TEST(TokenFile, OnlyItsOwnerCanReadItAndItHasNoNameInAFolder) {
  std::string path;
  {
    const Result<TokenFile> file = TokenFile::Create("secret");
    ASSERT_TRUE(file.ok()) << file.status().message();
    path = file->path();
    struct stat info;
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_TRUE(S_ISREG(info.st_mode));
    EXPECT_EQ(info.st_nlink, 0u) << "a killed process leaves no file behind";
    EXPECT_EQ(test::ReadFile(path), "secret\n");
    EXPECT_EQ(test::ReadFile(path), "secret\n") << "again";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TokenFile, TokensDiffer) {
  const std::string one = *RandomToken(), other = *RandomToken();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace millrace::launch
