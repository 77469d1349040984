// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/child/program_path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::launch {
namespace {

namespace fs = std::filesystem;

TEST(ProgramPath, SearchesItsOwnFolderThenThePath) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "program", "#!/bin/sh\n");
  EXPECT_EQ(FindProgram("program", folder.path()).status().code(), Code::kIo) << "not executable";
  fs::permissions(folder / "program", fs::perms::owner_all);
  EXPECT_EQ(*FindProgram("program", "/nowhere:" + folder.path()), folder / "program");
  const std::string own_name = fs::path(OwnPath()).filename().string();
  EXPECT_EQ(*FindProgram(own_name, ""), OwnPath());
  EXPECT_EQ(*FindProgram(folder / "program", ""), folder / "program");
  EXPECT_EQ(FindProgram("no-such-program", folder.path()).status().code(), Code::kNotFound);
  EXPECT_EQ(FindProgram(folder / "none", "").status().code(), Code::kNotFound);
  EXPECT_EQ(FindProgram(folder.path(), "").status().code(), Code::kIo);
  EXPECT_FALSE(FindProgram("", folder.path()).ok());
}

}  // namespace
}  // namespace millrace::launch
