// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/append_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

using test::ReadFile;
using test::TemporaryFolder;

// Appends rows in a process whose files may have `limit` bytes; true if the second one failed.
bool SecondRowFails(const std::string& path, rlim_t limit) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit bytes = {.rlim_cur = limit, .rlim_max = limit};
    setrlimit(RLIMIT_FSIZE, &bytes);
    auto file = AppendFile::Open(path);
    const bool first = file.ok() && file->Append("first row\n").ok();
    _exit(first && !file->Append("second row\n").ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(AppendFile, RowThatDoesNotFitWritesNothing) {
  for (const rlim_t limit : {10, 11, 15, 20}) {
    const TemporaryFolder folder;
    EXPECT_TRUE(SecondRowFails(folder / "rows", limit)) << limit;
    EXPECT_EQ(ReadFile(folder / "rows"), "first row\n") << limit;
  }
}

TEST(AppendFile, AppendsToExistingRows) {
  const TemporaryFolder folder;
  for (const char* row : {"a\n", "b\n"}) {
    auto file = AppendFile::Open(folder / "rows");
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->Append(row).ok());
    EXPECT_TRUE(file->Sync().ok());
  }
  EXPECT_EQ(ReadFile(folder / "rows"), "a\nb\n");
}

TEST(AppendFile, LinkIsRefused) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "foreign", "text");
  std::filesystem::create_symlink(folder / "foreign", folder / "rows");
  const auto file = AppendFile::Open(folder / "rows");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(),
            folder / "rows" + ": expected a regular file, found a symbolic link");
}

TEST(AppendFile, ErrorsNameTheFile) {
  EXPECT_EQ(AppendFile::Open("/nowhere/rows").status().message(),
            "/nowhere/rows: cannot open: No such file or directory");
  EXPECT_EQ(AppendFile::Open("/dev/full").status().message(),
            "/dev/full: expected a regular file, found another kind of file");
}

}  // namespace
}  // namespace millrace::trainer
