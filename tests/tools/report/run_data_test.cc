// SPDX-License-Identifier: Apache-2.0
// Run folders: traces on one axis, merged traces, and corrupt files.

#include "tools/report/run_data.h"

#include <gtest/gtest.h>

#include "tests/tools/report/synthetic_run.h"

namespace millrace::report {
namespace {

class RunDataTest : public testing::Test {
 protected:
  RunData Load() {
    Result<RunData> run = LoadRun(folder_.path());
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? std::move(*run) : RunData();
  }
  test::TemporaryFolder folder_;
};

TEST_F(RunDataTest, ProcessesLandOnOneAxis) {
  // The worker's clock began 5 s before the server's: its readings are 5 s higher.
  SyntheticTrace server(0, 1'000'000'000), worker(-5'000'000'000, 6'000'000'000);
  server.Span(1, "serve_exchange", "server", 100, 10);
  worker.Span(1, "exchange_send", "network", 90, 5);
  server.Write(folder_, "ps-0");
  worker.Write(folder_, "worker-0");
  const RunData run = Load();
  ASSERT_EQ(run.processes.size(), 2u);
  EXPECT_EQ(run.processes[0].name, "worker-0");
  EXPECT_EQ(run.processes[0].threads[0].spans[0].begin_ns, 0);
  EXPECT_EQ(run.processes[1].threads[0].spans[0].begin_ns, 10'000);
}

TEST_F(RunDataTest, WorkersAreInOrderOfTheirNumbers) {
  SyntheticTrace trace;
  trace.Span(1, "step", "step", 1, 1);
  for (const char* name : {"ps-0", "worker-10", "worker-2", "ps-1"}) trace.Write(folder_, name);
  std::string names;
  for (const ProcessData& process : Load().processes) names += process.name + " ";
  EXPECT_EQ(names, "worker-2 worker-10 ps-0 ps-1 ");
}

TEST_F(RunDataTest, ThreadsOfOneNameThatFollowEachOtherShareALine) {
  SyntheticTrace trace;
  for (int tid = 1; tid <= 4; ++tid) trace.Thread(tid, tid < 4 ? "evaluate" : "other");
  trace.Span(1, "score", "evaluation", 10, 5);
  trace.Span(2, "score", "evaluation", 15, 5);
  trace.Span(3, "score", "evaluation", 18, 5);  // overlaps with the second
  trace.Span(4, "score", "evaluation", 30, 5);
  trace.Flow(2, true, "0x1", 15);
  trace.Write(folder_, "worker-0");
  const RunData run = Load();
  const ProcessData& process = run.processes[0];
  ASSERT_EQ(process.threads.size(), 3u);
  EXPECT_EQ(process.threads[0].spans.size(), 2u);
  EXPECT_EQ(process.threads[0].spans[1].begin_ns, 5'000);
  EXPECT_EQ(process.threads[1].spans.size(), 1u);
  EXPECT_EQ(process.flows[0].tid, process.threads[0].tid);
}

TEST_F(RunDataTest, MergedTraceHasAllEventsAndIsNotReadAsAProcess) {
  SyntheticTrace worker, server;
  worker.Span(1, "exchange_send", "network", 90, 5, "\"bytes\":7");
  worker.Flow(1, true, "0xff", 90);
  worker.Counter("ready", 95, 3);
  worker.Thread(1, "main");
  server.Span(4, "serve_exchange", "server", 100, 10);
  server.Flow(4, false, "0xff", 100);
  worker.Write(folder_, "worker-0");
  server.Write(folder_, "ps-0");
  const RunData run = Load();
  ASSERT_TRUE(WriteMergedTrace(run, folder_ / "trace-all.json.gz").ok());
  EXPECT_EQ(Load().processes.size(), 2u);
  NameTable names;
  ProcessData merged;
  MemoryBudget budget(kRunMemoryBytes);
  const Status status = ReadTrace(test::ReadFile(folder_ / "trace-all.json.gz"),
                                  "trace-all.json.gz", budget, names, merged);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(merged.threads.size(), 2u);
  EXPECT_EQ(merged.flows.size(), 2u);
  EXPECT_EQ(merged.flows[0].id, 255u);
  EXPECT_EQ(merged.counters.size(), 1u);
}

TEST_F(RunDataTest, CorruptTraceIsReportedWithItsOffset) {
  test::WriteFile(folder_ / "trace-worker-0.json", "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":x}]}");
  const Result<RunData> run = LoadRun(folder_.path());
  EXPECT_FALSE(run.ok()) << "no other file";
  EXPECT_NE(run.status().message().find("trace-worker-0.json: offset 31: expected a number"),
            std::string::npos)
      << run.status().message();
}

TEST_F(RunDataTest, FolderWithoutARunIsRefused) {
  EXPECT_FALSE(LoadRun(folder_.path()).ok());
  EXPECT_FALSE(LoadRun(folder_ / "missing").ok());
}

}  // namespace
}  // namespace millrace::report
