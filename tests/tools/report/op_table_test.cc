// SPDX-License-Identifier: Apache-2.0
#include "tools/report/op_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "tests/tools/report/synthetic_run.h"
#include "tools/report/diagnosis.h"

namespace millrace::report {
namespace {

class OpTableTest : public testing::Test {
 protected:
  RunData Load() {
    Result<RunData> run = LoadRun(folder_.path());
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? std::move(*run) : RunData();
  }
  test::TemporaryFolder folder_;
};

TEST_F(OpTableTest, OpTableCountsNoStepThatFoundNoData) {
  SyntheticTrace trace;
  for (int i = 0; i < 5; ++i) trace.Span(1, "step", "step", 200 * i, 100, "\"rows\":100");
  trace.Span(1, "step", "step", 1000, 1);
  trace.Write(folder_, "worker-0");
  const std::vector<OpRow> ops = MakeOpTable(Load());
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].calls, 5u);
}

TEST_F(OpTableTest, OpTableCountsAndSharesAreExact) {
  SyntheticTrace trace;
  for (int i = 0; i < 100; ++i) {
    trace.Span(1, "step", "step", 200 * i, 100, "\"rows\":100");
    trace.Span(1, "margins", "compute", 200 * i + 10, i == 99 ? 90 : 10,
               "\"rows\":100,\"nnz\":3900,\"bytes\":31200");
  }
  trace.Span(1, "evaluate", "evaluation", 30000, 1000);
  trace.Span(1, "margins", "compute", 30100, 500, "\"rows\":20");
  trace.Write(folder_, "worker-0");
  const std::vector<OpRow> rows = MakeOpTable(Load());
  const auto find = [&](const std::string& op) {
    for (const OpRow& row : rows) {
      if (row.op == op) return row;
    }
    ADD_FAILURE() << op;
    return OpRow();
  };
  const OpRow margins = find("margins");
  EXPECT_EQ(margins.description, "X·w");
  EXPECT_EQ(margins.calls, 100u);
  EXPECT_EQ(margins.output, "100 rows, 3,900 nnz");
  EXPECT_NEAR(margins.total_s, 1080e-6, 1e-9);
  EXPECT_NEAR(margins.p50_us, 10, 1e-3);
  EXPECT_NEAR(margins.share_of_step, 0.108, 1e-6);
  EXPECT_NEAR(margins.gb_per_s, 3.12e6 / 1080e3, 1e-3);
  EXPECT_EQ(find("margins (eval)").calls, 1u);
}

TEST(OpDescriptionTest, EverySpanInTheSourcesHasOne) {
  const std::regex span(R"re((?:TRACE_SCOPE|TraceScope \w+)\(\s*"([^"]+)")re");
  size_t found = 0;
  for (const char* folder : {"io", "sparse", "ps", "trainer", "convnets"}) {
    const std::string root = std::string(MILLRACE_SOURCE_DIR "/") + folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cc") continue;
      const std::string text = test::ReadFile(entry.path());
      for (std::sregex_iterator it(text.begin(), text.end(), span), end; it != end; ++it, ++found) {
        EXPECT_NE(OpDescription((*it)[1]), "") << (*it)[1] << " in " << entry.path();
      }
    }
  }
  EXPECT_GT(found, 30u);
  EXPECT_EQ(OpDescription("conv2 backward data"), "gradient of its input");
}

TEST_F(OpTableTest, SharesOfOpsOnSeveralThreadsAreOfOneStep) {
  for (const char* worker : {"worker-0", "worker-1"}) {
    SyntheticTrace trace;
    for (int i = 0; i < 20; ++i) {
      trace.Span(1, "step", "step", 100 * i, 100, "\"rows\":64");
      trace.Span(1, "conv1 forward", "compute", 100 * i, 60);
      trace.Span(2, "conv1 forward", "compute", 100 * i, 50);
      trace.Span(1, "update", "compute", 100 * i + 60, 30);
      trace.Span(3, "decode", "input", 100 * i, 90);
      trace.Span(4, "decode", "input", 100 * i, 80);
    }
    trace.Span(2, "update", "compute", 2000, 5);  // once: not a thread that shares the work
    trace.Write(folder_, worker);
  }
  std::map<std::string, OpRow> rows;
  double sum = 0;
  for (const OpRow& row : MakeOpTable(Load())) {
    EXPECT_LE(row.share_of_step, 1) << row.op;
    if (row.cat == profiler::Cat::kCompute) sum += row.share_of_step;
    rows[row.op] = row;
  }
  EXPECT_NEAR(rows["conv1 forward"].share_of_step, 0.55, 1e-9);
  EXPECT_EQ(rows["conv1 forward"].threads, 2);
  EXPECT_EQ(rows["update"].threads, 1);
  EXPECT_NEAR(rows["decode"].share_of_step, 0.85, 1e-9);
  EXPECT_LE(sum, 1);
  const std::string sentence = DiagnoseRun(Load()).sentence;
  EXPECT_NE(sentence.find("conv1 forward 55 %"), std::string::npos) << sentence;
}

}  // namespace
}  // namespace millrace::report
