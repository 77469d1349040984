// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <gtest/gtest.h>

#include "tests/support/test_files.h"

namespace millrace::report {
namespace {

TEST(PageTest, DataCannotEndTheScript) {
  const test::TemporaryFolder folder;
  test::WriteFile(
      folder / "run.json",
      R"({"status":"finished","flags":{"train":"</script><script>alert(1)</script>"}})");
  const Result<RunData> run = LoadRun(folder.path());
  ASSERT_TRUE(run.ok());
  const auto json = PageDataJson(*run, DiagnoseRun(*run), {}, {}, 1000);
  ASSERT_TRUE(json.ok());
  const std::string page = PageHtml(*json, NewNonce());
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  EXPECT_EQ(page.find("@SCRIPT@"), std::string::npos);
}

TEST(PageTest, OnlyItsOwnScriptAndStyleMayRun) {
  const std::string page = PageHtml("{}", "abc123");
  EXPECT_NE(
      page.find(
          "Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-abc123'"),
      std::string::npos);
  EXPECT_NE(page.find("<script nonce=\"abc123\">"), std::string::npos);
  EXPECT_NE(page.find("<style nonce=\"abc123\">"), std::string::npos);
  EXPECT_EQ(page.find("@NONCE@"), std::string::npos);
  EXPECT_NE(NewNonce(), NewNonce());
}

}  // namespace
}  // namespace millrace::report
