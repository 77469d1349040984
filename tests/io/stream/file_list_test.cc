// SPDX-License-Identifier: Apache-2.0
#include "io/stream/file_list.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/test_files.h"

namespace millrace::io {
namespace {

using Files = std::vector<std::string>;

TEST(ExpandFiles, SortsGlobsAndKeepsTheOrderOfPatterns) {
  const test::TemporaryFolder folder;
  for (const char* name : {"b-2", "b-1", "a-1"}) test::WriteFile(folder / name, "");
  const auto files = ExpandFiles((folder / "b-*") + "," + (folder / "a-?"));
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (Files{folder / "b-1", folder / "b-2", folder / "a-1"}));
}

TEST(ExpandFiles, BracesMayHoldCommas) {
  const test::TemporaryFolder folder;
  for (const char* name : {"x1", "x2", "x3"}) test::WriteFile(folder / name, "");
  const auto files = ExpandFiles(folder / "x{1,3}");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (Files{folder / "x1", folder / "x3"}));
}

TEST(ExpandFiles, QueryIsNoPattern) {
  const std::string query = "sql:SELECT a, b FROM 'day=*/*.parquet' WHERE a[1] = '{' ORDER BY b";
  EXPECT_EQ(*ExpandFiles(query), Files{query});
}

TEST(ExpandFiles, NameOfAFileIsNoPattern) {
  const test::TemporaryFolder folder;
  for (const char* name : {"x[1].tfrecord", "x1.tfrecord"}) test::WriteFile(folder / name, "");
  EXPECT_EQ(*ExpandFiles(folder / "x[1].tfrecord"), (Files{folder / "x[1].tfrecord"}));
  EXPECT_EQ(*ExpandFiles(folder / "x[12].tfrecord"), (Files{folder / "x1.tfrecord"}));
}

TEST(ExpandFiles, ReadsListsOfPatterns) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "x", "");
  test::WriteFile(folder / "list", "# data\n\n" + (folder / "x") + "\n" + (folder / "x*") + "\n");
  const auto files = ExpandFiles("@" + (folder / "list") + ",plain");
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_EQ(*files, (Files{folder / "x", folder / "x", "plain"}));
}

TEST(ExpandFiles, ListMustBeARegularFile) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "list").c_str(), 0600), 0);
  EXPECT_EQ(ExpandFiles("@" + (folder / "list")).status().message(),
            folder / "list" + ": expected a regular file, found a FIFO");
}

TEST(ExpandFiles, RefusesWhatMatchesNothingAndListsWithoutEnd) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(ExpandFiles(folder / "none-*").status().message(),
            (folder / "none-*") + ": no file matches");
  EXPECT_EQ(ExpandFiles("").status().code(), Code::kInvalid);
  test::WriteFile(folder / "loop", "@" + (folder / "loop") + "\n");
  EXPECT_EQ(ExpandFiles("@" + (folder / "loop")).status().code(), Code::kInvalid);
  EXPECT_EQ(ExpandFiles("@" + (folder / "absent")).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace millrace::io
