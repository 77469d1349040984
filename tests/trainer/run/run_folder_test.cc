// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/run_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using test::ReadFile;
using test::TemporaryFolder;
using test::WriteFile;

RunInfo SomeRun() {
  return {.program = "millrace-lr",
          .version = "0.1.0",
          .flags = {{"batch_size", "100"}, {"train", "a \"quoted\" name"}},
          .seed = 7,
          .host = {.name = "mill", .cpu = "Water Wheel", .cores = 2, .memory_bytes = 8'000'000},
          .pid = 42,
          .start_time_s = 1794805427.25};
}

RunFolder Opened(const RunFolderOptions& options) {
  auto folder = RunFolder::Open(options);
  EXPECT_TRUE(folder.ok()) << folder.status().message();
  return std::move(*folder);
}

std::string Refusal(const RunFolderOptions& options) {
  return RunFolder::Open(options).status().message();
}

// A run in `path` that has ended so.
void LeaveRun(const std::string& path, RunStatus status) {
  RunFolder folder = Opened({.path = path});
  EXPECT_TRUE(folder.Begin(SomeRun()).ok());
  WriteFile(path + "/metrics.csv", "rows");
  WriteFile(path + "/trace-0.json", "{}");
  WriteFile(folder.checkpoints() + "/checkpoint-000000000001", "weights");
  if (status == RunStatus::kRunning) return;
  EXPECT_TRUE(folder.Finish({.status = status}).ok());
}

TEST(RunFolder, IsMadeWithItsParentsAndParts) {
  const TemporaryFolder temporary;
  const RunFolder folder = Opened({.path = temporary / "a/b/c"});
  EXPECT_EQ(folder.path(), temporary / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder.checkpoints()));
  EXPECT_TRUE(fs::is_directory(folder.model()));
  EXPECT_EQ(folder.earlier_status(), "");
  EXPECT_TRUE(fs::is_empty(folder.checkpoints())) << "the probe is taken away again";
}

TEST(RunFolder, SaysWhatRunsAndHowItEnded) {
  const TemporaryFolder temporary;
  RunFolder folder = Opened({.path = temporary.path()});
  ASSERT_TRUE(folder.Begin(SomeRun()).ok());
  const std::string start =
      "\"program\":\"millrace-lr\",\"version\":\"0.1.0\",\"start_time\":\"2026-11-16T05:03:47Z\","
      "\"pid\":42,\"seed\":7,\"host\":{\"name\":\"mill\",\"cpu\":\"Water Wheel\",\"cores\":2,"
      "\"memory_bytes\":8000000},\"flags\":{\"batch_size\":\"100\","
      "\"train\":\"a \\\"quoted\\\" name\"}";
  EXPECT_EQ(ReadFile(temporary / "run.json"), "{\"status\":\"running\"," + start + "}\n");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(folder
                  .Finish({.status = RunStatus::kFailed,
                           .message = "no room",
                           .end_time_s = 1794805428.75,
                           .metrics = {{"auc", 0.75}, {"ne", nan}},
                           .best = BestEvaluation{"auc", 4, 400, "{\"auc\":0.8}"},
                           .warnings = {"a \"b\"", "c"}})
                  .ok());
  EXPECT_EQ(
      ReadFile(temporary / "run.json"),
      "{\"status\":\"failed\"," + start +
          ",\"message\":\"no room\",\"end_time\":\"2026-11-16T05:03:48Z\",\"seconds\":1.5,"
          "\"metrics\":{\"auc\":0.75,\"ne\":null},\"best\":{\"metric\":\"auc\",\"step\":4,"
          "\"examples\":400,\"metrics\":{\"auc\":0.8}},\"warnings\":[\"a \\\"b\\\"\",\"c\"]}\n");
}

TEST(RunFolder, RunJsonIsStrictJson) {
  const TemporaryFolder temporary;
  RunFolder folder = Opened({.path = temporary.path()});
  RunInfo info = SomeRun();
  info.host = DescribeHost();
  info.resumed_step = 12;
  info.flags = {{"bytes", "\xff\n\t\"\\"}};
  ASSERT_TRUE(folder.Begin(info).ok());
  const std::string command =
      "python3 -c 'import json,sys; run = json.load(open(sys.argv[1])); "
      "assert run[\"resumed_step\"] == 12 and run[\"host\"][\"cores\"] > 0 "
      "and run[\"host\"][\"memory_bytes\"] > 1e6' " +
      (temporary / "run.json");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(RunFolder, FolderWithARunIsRefusedWithAdvice) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "run";
  LeaveRun(path, RunStatus::kFinished);
  EXPECT_EQ(Refusal({.path = path}),
            path +
                " holds an earlier run (finished): choose another run_dir, continue that run with "
                "resume, or erase it with overwrite");
  EXPECT_EQ(ReadFile(path + "/metrics.csv"), "rows");
}

TEST(RunFolder, KnowsHowTheEarlierRunEnded) {
  for (const RunStatus status :
       {RunStatus::kRunning, RunStatus::kFinished, RunStatus::kFailed, RunStatus::kInterrupted}) {
    const TemporaryFolder temporary;
    LeaveRun(temporary / "run", status);
    const RunFolder folder = Opened({.path = temporary / "run", .resume = true});
    EXPECT_EQ(folder.earlier_status(), RunStatusName(status));
  }
  const TemporaryFolder temporary;
  WriteFile(temporary / "run.json", "not ours");
  EXPECT_NE(Refusal({.path = temporary.path()}).find("(unknown)"), std::string::npos);
}

TEST(RunFolder, ResumingKeepsEverything) {
  const TemporaryFolder temporary;
  LeaveRun(temporary / "run", RunStatus::kRunning);
  RunFolder folder = Opened({.path = temporary / "run", .resume = true});
  ASSERT_TRUE(folder.Begin(SomeRun()).ok());
  EXPECT_EQ(ReadFile(temporary / "run/metrics.csv"), "rows");
  EXPECT_EQ(ReadFile(temporary / "run/checkpoints/checkpoint-000000000001"), "weights");
}

// A run that is killed before its first checkpoint starts from the beginning when it is resumed.
TEST(RunFolder, BestModelStaysOnlyIfItsRunIsResumed) {
  for (const bool resumes : {true, false}) {
    SCOPED_TRACE(resumes);
    const TemporaryFolder temporary;
    LeaveRun(temporary / "run", RunStatus::kRunning);
    WriteFile(temporary / "run/model/best.bin", "best");
    RunFolder folder = Opened({.path = temporary / "run", .resume = true});
    RunInfo info = SomeRun();
    if (resumes) info.resumed_step = 12;
    ASSERT_TRUE(folder.Begin(info).ok());
    EXPECT_EQ(fs::exists(temporary / "run/model/best.bin"), resumes);
  }
}

TEST(RunFolder, BestModelOfAnotherFormatIsRemoved) {
  const TemporaryFolder temporary;
  RunFolder folder = Opened({.path = temporary.path()});
  for (const char* name : {"model/best.bin", "model/best.txt", "model/model.bin"})
    WriteFile(temporary / name, "weights");
  ASSERT_TRUE(folder.RemoveOtherBest(temporary / "model/best.txt").ok());
  EXPECT_FALSE(fs::exists(temporary / "model/best.bin"));
  EXPECT_TRUE(fs::exists(temporary / "model/best.txt"));
  EXPECT_TRUE(fs::exists(temporary / "model/model.bin"));
}

TEST(RunFolder, UnfinishedRunNamesItsBestModel) {
  const TemporaryFolder temporary;
  LeaveRun(temporary / "run", RunStatus::kRunning);
  EXPECT_TRUE(
      ModelFileOf(temporary / "run").status().message().ends_with("wrote its model elsewhere"));
  WriteFile(temporary / "run/model/best.bin", "best");
  EXPECT_TRUE(
      ModelFileOf(temporary / "run")
          .status()
          .message()
          .ends_with("(" + temporary / "run/model/best.bin" + " is its best model so far)"));
}

TEST(RunFolder, ResumingAnEmptyFolderStartsANewRun) {
  const TemporaryFolder temporary;
  EXPECT_EQ(Opened({.path = temporary / "run", .resume = true}).earlier_status(), "");
}

TEST(RunFolder, OverwritingErasesTheRunAloneAndNotBeforeBegin) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "run";
  constexpr const char* kMine[] = {"/model/best.pickle",     "/model/model.bin.before",
                                   "/checkpoints/notes",     "/checkpoints/shard-0/notes",
                                   "/watched-by-me.txt",     "/metrics.csv.old",
                                   "/checkpoints/shard-list"};
  constexpr const char* kLeftovers[] = {"/model/model.bin",
                                        "/model/best.bin",
                                        "/model/best.txt.tmp-12-0",
                                        "/recent-worker-0.json.tmp",
                                        "/watched",
                                        "/graph.dot",
                                        "/report.html.tmp-12-0",
                                        "/checkpoints/manifest",
                                        "/checkpoints/shard-0/manifest",
                                        "/checkpoints/shard-0/checkpoint-000000000300"};
  LeaveRun(path, RunStatus::kFinished);
  fs::create_directories(path + "/checkpoints/shard-0");
  WriteFile(path + "/notes.txt", "mine");
  WriteFile(path + "/trace-of-thought.txt", "mine");
  for (const char* name : kMine) WriteFile(path + name, "mine");
  for (const char* name : kLeftovers) WriteFile(path + name, "half");
  RunFolder folder = Opened({.path = path, .overwrite = true});
  EXPECT_EQ(ReadFile(path + "/metrics.csv"), "rows");
  ASSERT_TRUE(folder.Begin(SomeRun()).ok());
  for (const char* name : {"metrics.csv", "trace-0.json", "checkpoints/checkpoint-000000000001"}) {
    EXPECT_FALSE(fs::exists(path + "/" + name)) << name;
  }
  for (const char* name : kLeftovers) EXPECT_FALSE(fs::exists(path + name)) << name;
  for (const char* name : kMine) EXPECT_EQ(ReadFile(path + name), "mine") << name;
  EXPECT_EQ(ReadFile(path + "/notes.txt"), "mine");
  EXPECT_EQ(ReadFile(path + "/trace-of-thought.txt"), "mine");
  EXPECT_TRUE(fs::is_directory(folder.checkpoints()));
}

TEST(RunFolder, OverwritingAFolderWithoutARunErasesNothing) {
  const TemporaryFolder temporary;
  fs::create_directory(temporary / "model");
  WriteFile(temporary / "model/mine", "mine");
  RunFolder folder = Opened({.path = temporary.path(), .overwrite = true});
  ASSERT_TRUE(folder.Begin(SomeRun()).ok());
  EXPECT_EQ(ReadFile(temporary / "model/mine"), "mine");
}

TEST(RunFolder, FolderInUseIsAlwaysRefused) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "run";
  {
    const RunFolder first = Opened({.path = path});
    for (const bool resume : {false, true}) {
      EXPECT_EQ(Refusal({.path = path, .resume = resume, .overwrite = !resume}),
                path +
                    " is in use by a run that is still going: wait for its end, stop it, or "
                    "choose another run_dir");
    }
  }
  Opened({.path = path});
}

TEST(RunFolder, PathThatCannotBeAFolderIsNamed) {
  const TemporaryFolder temporary;
  WriteFile(temporary / "file", "");
  EXPECT_NE(Refusal({.path = temporary / "file"}).find(temporary / "file"), std::string::npos);
  EXPECT_NE(Refusal({.path = temporary / "file/run"}).find(temporary / "file/run"),
            std::string::npos);
  EXPECT_NE(Refusal({.path = "/proc/run"}).find("/proc/run"), std::string::npos);
  EXPECT_NE(Refusal({.path = ""}).find("run_dir is empty"), std::string::npos);
  EXPECT_NE(Refusal({.path = "x", .resume = true, .overwrite = true}).find("expected one of them"),
            std::string::npos);
}

TEST(RunFolder, UnwritableFolderIsRefused) { EXPECT_NE(Refusal({.path = "/proc"}), ""); }

}  // namespace
}  // namespace millrace::trainer
