// SPDX-License-Identifier: Apache-2.0
// millrace-report on run folders that somebody else wrote.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/program.h"
#include "tests/tools/report/corpus_run.h"

namespace millrace::report {
namespace {

using test::ProgramRun;
using test::RunProgram;

class ReportProgramTest : public testing::Test {
 protected:
  void SetUp() override { WriteRun(CorpusRun(), folder_); }
  ProgramRun Report(const std::string& flags = "") {
    return RunProgram("millrace-report", folder_.path() + " " + flags);
  }
  test::TemporaryFolder folder_;
};

TEST_F(ReportProgramTest, BadFilesGiveOneWarningEachAndAReport) {
  test::WriteFile(folder_ / "resources-z.csv", "x\n1\n2\n");
  test::WriteFile(folder_ / "metrics.csv", "\xff\n1,2\n");
  test::WriteFile(folder_ / "trace-cut.json", CorpusRun()["trace-ps-0.json"].substr(0, 1000));
  ::unlink((folder_ / "graph.dot").c_str());
  ASSERT_EQ(::mkfifo((folder_ / "graph.dot").c_str(), 0600), 0);
  const ProgramRun run = Report();
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 4) << run.err;
  EXPECT_NE(run.err.find("millrace-report: ignored: "), std::string::npos) << run.err;
  EXPECT_NE(run.out.find("-bound: "), std::string::npos) << run.out;
  EXPECT_NE(test::ReadFile(folder_ / "report.html").find("resources-z.csv: line 1"),
            std::string::npos);
}

TEST_F(ReportProgramTest, ControlCharactersDoNotReachTheTerminal) {
  test::WriteFile(folder_ / "run.json",
                  "{\"status\":\"\\u001b[31m\\u0007\",\"host\":{\"name\":\"\\u009b2J\"}}");
  std::filesystem::rename(folder_ / "trace-worker-0.json", folder_ / "trace-w\x1b[5m\n.json");
  test::WriteFile(folder_ / "trace-\x1b]0;x\x07.json", "\x1b[2J");
  for (const char* flags : {"", "--json"}) {
    const ProgramRun run = Report(flags);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ((run.out + run.err).find_first_of("\x1b\x07"), std::string::npos);
    EXPECT_EQ((run.out + run.err).find("\xc2\x9b"), std::string::npos);
  }
  EXPECT_NE(Report().out.find("\\x1b[31m\\x07"), std::string::npos);
}

TEST_F(ReportProgramTest, OutputReplacesLinksAndRefusesFifos) {
  const test::TemporaryFolder elsewhere;
  test::WriteFile(elsewhere / "file", "precious");
  ASSERT_EQ(::symlink((elsewhere / "file").c_str(), (folder_ / "report.html").c_str()), 0);
  const ProgramRun run = Report();
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(test::ReadFile(elsewhere / "file"), "precious");
  EXPECT_TRUE(
      std::filesystem::is_regular_file(std::filesystem::symlink_status(folder_ / "report.html")));
  std::filesystem::remove(folder_ / "trace-all.json.gz");
  ASSERT_EQ(::mkfifo((folder_ / "trace-all.json.gz").c_str(), 0600), 0);
  const ProgramRun refused = Report();
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("trace-all.json.gz: expected a regular file or none"),
            std::string::npos)
      << refused.err;
}

TEST_F(ReportProgramTest, FolderWithoutAReadableFileIsAnError) {
  for (const auto& [name, bytes] : CorpusRun()) test::WriteFile(folder_ / name, "\x1b[2J");
  const ProgramRun run = Report();
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("no file of the run is readable"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace millrace::report
