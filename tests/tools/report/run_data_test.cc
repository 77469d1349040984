// Reading run folders: traces, samples, and what is wrong with them.

#include "tools/report/run_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <regex>

#include "profiler/resources.h"
#include "tests/tools/report/synthetic_run.h"
#include "tools/report/json_cursor.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/peaks.h"
#include "tools/report/run_files.h"

namespace millrace::report {
namespace {

TEST(JsonCursorTest, ReadsNestedValuesAndEscapes) {
  const std::string text =
      R"( {"a" : [1, -2.5e3, {"b\n\u00e9\ud83d\ude00": null}], "c":"\"\\", "d": true, "e":"12"} )";
  JsonCursor json(text);
  std::vector<double> numbers;
  std::string key_inside, c;
  int64_t e = 0;
  json.Object([&](std::string_view key) {
    if (key == "a") {
      json.Array([&] {
        if (json.Peek() != '{') return numbers.push_back(json.Double());
        json.Object([&](std::string_view inner) {
          key_inside = inner;
          json.Skip();
        });
      });
    } else if (key == "c") {
      c = json.String();
    } else if (key == "e") {
      e = json.Int();
    } else {
      json.Skip();
    }
  });
  EXPECT_TRUE(json.status().ok()) << json.status().message();
  EXPECT_EQ(numbers, (std::vector<double>{1, -2500}));
  EXPECT_EQ(key_inside, "b\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(c, "\"\\");
  EXPECT_EQ(e, 12);
}

TEST(JsonCursorTest, EveryTruncationIsAnError) {
  const std::string text = R"({"a":[1,{"b":"x\u0041"}],"c":true})";
  for (size_t size = 0; size < text.size(); ++size) {
    JsonCursor json(std::string_view(text).substr(0, size), "cut");
    json.Object([&](std::string_view) { json.Skip(); });
    EXPECT_FALSE(json.status().ok()) << size;
    EXPECT_NE(json.status().message().find("cut: offset"), std::string::npos);
  }
}

TEST(JsonCursorTest, DepthIsBounded) {
  const std::string deep = std::string(100000, '[').append(100000, ']');
  JsonCursor json(deep);
  json.Skip();
  EXPECT_FALSE(json.status().ok());
}

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
  for (int tid = 1; tid <= 4; ++tid) trace.Thread(tid, tid < 4 ? "test" : "other");
  trace.Span(1, "score", "evaluation", 10, 5);
  trace.Span(2, "score", "evaluation", 15, 5);
  trace.Span(3, "score", "evaluation", 18, 5);  // beside the second
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
  const Status status = ReadTraceFile(folder_ / "trace-all.json.gz", names, merged);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(merged.threads.size(), 2u);
  EXPECT_EQ(merged.flows.size(), 2u);
  EXPECT_EQ(merged.flows[0].id, 255u);
  EXPECT_EQ(merged.counters.size(), 1u);
}

TEST_F(RunDataTest, DamagedTraceIsReportedWithItsOffset) {
  test::WriteFile(folder_ / "trace-worker-0.json", "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":x}]}");
  const Result<RunData> run = LoadRun(folder_.path());
  EXPECT_FALSE(run.ok());
  EXPECT_NE(run.status().message().find("trace-worker-0.json: offset 31: expected a number"),
            std::string::npos)
      << run.status().message();
}

TEST_F(RunDataTest, FolderWithoutARunIsRefused) {
  EXPECT_FALSE(LoadRun(folder_.path()).ok());
  EXPECT_FALSE(LoadRun(folder_ / "missing").ok());
}

TEST_F(RunDataTest, SamplesBecomeRates) {
  profiler::Resources r;
  std::string csv = profiler::ResourcesCsvHeader();
  for (int i = 0; i < 5; ++i) {
    r.steady_ns = i * 200'000'000;
    r.user_s_total = 0.3 * i;
    r.tcp_sent_bytes_total = static_cast<uint64_t>(i) * 1'000'000;
    r.resident_bytes = 500'000'000;
    r.threads = {{.tid = 4, .name = "main", .user_s = 0.3 * i, .system_s = 0}};
    csv += profiler::ResourcesCsvLine(r, 0);
  }
  test::WriteFile(folder_ / "resources-worker-0.csv", csv + "a line that is being wri");
  const RunData run = Load();
  ASSERT_EQ(run.processes[0].num_samples(), 5u);
  EXPECT_EQ(run.processes[0].thread_samples.at(4).cpu_s.size(), 5u);
  const auto peaks = MakePeaks(run);
  ASSERT_EQ(peaks.size(), 2u);
  const auto find = [&](const std::string& what) {
    for (const PeakRow& row : peaks[0].rows) {
      if (row.resource == what) return row;
    }
    return PeakRow{};
  };
  EXPECT_NEAR(find("CPU").peak, 1.5, 1e-9);
  EXPECT_NEAR(find("network sent").mean, 40, 1e-9);
  EXPECT_EQ(find("network sent").unit, "Mbit/s");
  EXPECT_NEAR(find("memory").peak, 500, 1e-9);
}

TEST_F(RunDataTest, LastSampleCloseBehindAnotherGivesNoPeak) {
  profiler::Resources r;
  std::string csv = profiler::ResourcesCsvHeader();
  for (const double seconds : {0.0, 0.2, 0.4, 0.4001}) {
    r.steady_ns = std::llround(seconds * 1e9);
    r.user_s_total += 0.01;
    r.threads = {{.tid = 4, .name = "main", .user_s = r.user_s_total, .system_s = 0}};
    csv += profiler::ResourcesCsvLine(r, 0);
  }
  test::WriteFile(folder_ / "resources-worker-0.csv", csv);
  const RunData run = Load();
  ASSERT_EQ(run.processes[0].num_samples(), 3u);
  EXPECT_EQ(run.processes[0].thread_samples.at(4).cpu_s.size(), 3u);
  EXPECT_NEAR(MakePeaks(run)[0].rows[0].peak, 0.1, 1e-3);
}

TEST_F(RunDataTest, ProcessOfAFewMillisecondsHasNoRates) {
  profiler::Resources r;
  std::string csv = profiler::ResourcesCsvHeader();
  for (int i = 0; i < 2; ++i) {
    r.steady_ns = i * 3'000'000;
    r.host_busy_s_total = 0.01 * i;
    csv += profiler::ResourcesCsvLine(r, 0);
  }
  test::WriteFile(folder_ / "resources-worker-0.csv", csv);
  const RunData run = Load();
  EXPECT_EQ(run.processes[0].num_samples(), 1u);
  EXPECT_TRUE(Rates(run.processes[0], "host_busy_s_total").empty());
}

TEST_F(RunDataTest, HostIsNeverBusierThanItsCores) {
  profiler::Resources r;
  std::string csv = profiler::ResourcesCsvHeader();
  for (int i = 0; i < 3; ++i) {
    r.steady_ns = i * 200'000'000;
    r.host_busy_s_total = 0.42 * i;
    csv += profiler::ResourcesCsvLine(r, 0);
  }
  test::WriteFile(folder_ / "resources-worker-0.csv", csv);
  test::WriteFile(folder_ / "run.json", R"({"host":{"cores":2}})");
  const std::vector<ProcessPeaks> peaks = MakePeaks(Load());
  EXPECT_EQ(peaks.back().rows[0].resource, "CPU");
  EXPECT_EQ(peaks.back().rows[0].mean, 2);
  EXPECT_EQ(peaks.back().rows[0].peak, 2);
}

TEST_F(RunDataTest, OpTableCountsNoStepThatFoundNoData) {
  SyntheticTrace trace;
  for (int i = 0; i < 5; ++i) trace.Span(1, "step", "step", 200 * i, 100, "\"rows\":100");
  trace.Span(1, "step", "step", 1000, 1);
  trace.Write(folder_, "worker-0");
  const std::vector<OpRow> ops = MakeOpTable(Load());
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].calls, 5u);
}

TEST_F(RunDataTest, OpTableCountsAndSharesAreExact) {
  SyntheticTrace trace;
  for (int i = 0; i < 100; ++i) {
    trace.Span(1, "step", "step", 200 * i, 100, "\"rows\":100");
    trace.Span(1, "margins", "compute", 200 * i + 10, i == 99 ? 90 : 10,
               "\"rows\":100,\"nnz\":3900,\"bytes\":31200");
  }
  trace.Span(1, "test", "evaluation", 30000, 1000);
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
  EXPECT_EQ(find("margins (test)").calls, 1u);
}

TEST(OpDescriptionTest, EverySpanOfTheSourcesHasOne) {
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

TEST_F(RunDataTest, SharesOfOpsOnSeveralThreadsAreOfOneStep) {
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

TEST_F(RunDataTest, PageHoldsNoTextThatCouldEndItsScript) {
  test::WriteFile(
      folder_ / "run.json",
      R"({"status":"finished","flags":{"train":"</script><script>alert(1)</script>"}})");
  const RunData run = Load();
  const auto json = PageDataJson(run, DiagnoseRun(run), {}, {}, 1000);
  ASSERT_TRUE(json.ok());
  const std::string page = PageHtml(*json);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  EXPECT_EQ(page.find("@SCRIPT@"), std::string::npos);
}

}  // namespace
}  // namespace millrace::report
