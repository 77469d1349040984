// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/metrics_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "io/base/random.h"
#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

MetricsLog Opened(const TemporaryFolder& folder, std::optional<uint64_t> resume_step = {}) {
  auto log = MetricsLog::Open({.run_dir = folder.path(),
                               .host = "mill",
                               .wall_time_s = 1700000000,
                               .resume_step = resume_step});
  EXPECT_TRUE(log.ok()) << log.status().message();
  return std::move(*log);
}

MetricsRow Row(uint64_t step) {
  MetricsRow row = {.step = step, .examples = 100 * step};
  row.loss = 1.0 / static_cast<double>(step);
  BinaryMetrics metrics;
  metrics.auc = 0.5 + row.loss / 3;
  row.test = NamedValues(metrics);
  return row;
}

std::string Header() { return CsvHeader(Row(1)); }

void AppendRows(MetricsLog& log, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step <= to; ++step) {
    EXPECT_TRUE(log.Append(Row(step), 1700000000.0 + static_cast<double>(step)).ok());
  }
}

// Both files of rows.
std::string Rows(const TemporaryFolder& folder) {
  return ReadFile(folder / "metrics.csv") + ReadFile(folder / "metrics.jsonl");
}

std::string RowsOfAnUndisturbedRun(uint64_t steps) {
  const TemporaryFolder folder;
  MetricsLog log = Opened(folder);
  AppendRows(log, 1, steps);
  return Rows(folder);
}

size_t EventFiles(const TemporaryFolder& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    count += entry.path().filename().string().starts_with("events.out.tfevents.1700000000.mill");
  }
  return count;
}

TEST(MetricsLog, EachRowIsInTheFilesAtOnce) {
  const TemporaryFolder folder;
  MetricsLog log = Opened(folder);
  EXPECT_EQ(ReadFile(folder / "metrics.csv"), Header());
  EXPECT_EQ(ReadFile(folder / "metrics.jsonl"), "");
  AppendRows(log, 1, 2);
  EXPECT_EQ(ReadFile(folder / "metrics.csv"), Header() + CsvLine(Row(1)) + CsvLine(Row(2)));
  EXPECT_EQ(ReadFile(folder / "metrics.jsonl"), JsonLine(Row(1)) + JsonLine(Row(2)));
  EXPECT_EQ(EventFiles(folder), 1u);
  EXPECT_TRUE(log.Sync().ok());
}

TEST(MetricsLog, ResumingDropsTheRowsThatWillBeWrittenAgain) {
  for (uint64_t checkpoint = 0; checkpoint <= 7; ++checkpoint) {
    SCOPED_TRACE(checkpoint);
    const TemporaryFolder folder;
    {
      MetricsLog killed = Opened(folder);
      AppendRows(killed, 1, 7);
    }
    MetricsLog log = Opened(folder, checkpoint);
    AppendRows(log, checkpoint + 1, 10);
    EXPECT_EQ(Rows(folder), RowsOfAnUndisturbedRun(10));
    EXPECT_EQ(EventFiles(folder), 2u);
  }
}

TEST(MetricsLog, ResumingCopesWithEveryTornEnd) {
  const TemporaryFolder folder;
  {
    MetricsLog killed = Opened(folder);
    AppendRows(killed, 1, 3);
  }
  const std::string csv = ReadFile(folder / "metrics.csv");
  const std::string jsonl = ReadFile(folder / "metrics.jsonl");
  const size_t csv_kept = (Header() + CsvLine(Row(1))).size();
  for (size_t cut = csv_kept; cut < csv.size(); ++cut) {
    WriteFile(folder / "metrics.csv", csv.substr(0, cut));
    WriteFile(folder / "metrics.jsonl", jsonl.substr(0, jsonl.size() - (csv.size() - cut)));
    MetricsLog log = Opened(folder, 1);
    AppendRows(log, 2, 5);
    ASSERT_EQ(Rows(folder), RowsOfAnUndisturbedRun(5)) << cut;
  }
}

// Writes rows until it is killed.
[[noreturn]] void RunForever(const TemporaryFolder& folder, std::optional<uint64_t> resume_step) {
  MetricsLog log = Opened(folder, resume_step);
  for (uint64_t step = resume_step.value_or(0) + 1;; ++step) AppendRows(log, step, step);
}

void RunAndKill(const TemporaryFolder& folder, std::optional<uint64_t> resume_step,
                useconds_t after_us) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
    RunForever(folder, resume_step);
  }
  usleep(after_us);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A step whose row is in all files: the last Append may have been cut off between them.
uint64_t SomeStepBeforeTheLast(const TemporaryFolder& folder, Random& random) {
  const std::string csv = ReadFile(folder / "metrics.csv");
  const auto rows = std::max<int64_t>(std::count(csv.begin(), csv.end(), '\n') - 1, 1);
  return random.Below(static_cast<uint64_t>(rows));
}

TEST(MetricsLog, KilledAndResumedRunHasTheSameRows) {
  const TemporaryFolder folder;
  Random random(3);
  RunAndKill(folder, std::nullopt, 20'000);
  for (int kills = 0; kills < 15; ++kills) {
    const auto after_us = static_cast<useconds_t>(1 + random.Below(20'000));
    RunAndKill(folder, SomeStepBeforeTheLast(folder, random), after_us);
  }
  const uint64_t step = SomeStepBeforeTheLast(folder, random);
  MetricsLog log = Opened(folder, step);
  AppendRows(log, step + 1, step + 5);
  EXPECT_EQ(Rows(folder), RowsOfAnUndisturbedRun(step + 5));
}

TEST(MetricsLog, ResumingWithoutFilesCreatesThem) {
  const TemporaryFolder folder;
  Opened(folder, 5);
  EXPECT_EQ(Rows(folder), Header());
  WriteFile(folder / "metrics.csv", "step,exa");
  Opened(folder, 5);
  EXPECT_EQ(Rows(folder), Header());
}

TEST(MetricsLog, StartingAnewForgetsEarlierRows) {
  const TemporaryFolder folder;
  {
    MetricsLog log = Opened(folder);
    AppendRows(log, 1, 3);
  }
  MetricsLog log = Opened(folder);
  EXPECT_EQ(Rows(folder), Header());
}

TEST(MetricsLog, ForeignRowsAreAnErrorAndStay) {
  const TemporaryFolder folder;
  const auto message = [&] {
    return MetricsLog::Open({.run_dir = folder.path(), .host = "mill", .resume_step = 1})
        .status()
        .message();
  };
  WriteFile(folder / "metrics.csv", "step,loss\n1,2\n");
  EXPECT_EQ(message(), (folder / "metrics.csv") +
                           ", line 1: expected the columns of this version, found \"step,loss\"");
  WriteFile(folder / "metrics.csv", Header() + CsvLine(Row(1)) + "hello\n");
  EXPECT_EQ(message(), (folder / "metrics.csv") +
                           ", line 3: expected a row that begins with its step, found \"hello\"");
  EXPECT_EQ(ReadFile(folder / "metrics.csv"), Header() + CsvLine(Row(1)) + "hello\n");
}

TEST(MetricsLog, MissingFolderIsAnError) {
  const auto log = MetricsLog::Open({.run_dir = "/nowhere", .host = "mill"});
  EXPECT_EQ(log.status().code(), Code::kIo);
  EXPECT_NE(log.status().message().find("/nowhere/metrics.csv"), std::string::npos);
}

}  // namespace
}  // namespace millrace::trainer
