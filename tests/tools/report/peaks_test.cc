// SPDX-License-Identifier: Apache-2.0
#include "tools/report/peaks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "profiler/resources.h"
#include "tests/support/test_files.h"

namespace millrace::report {
namespace {

class PeaksTest : public testing::Test {
 protected:
  RunData Load() {
    Result<RunData> run = LoadRun(folder_.path());
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? std::move(*run) : RunData();
  }
  test::TemporaryFolder folder_;
};

TEST_F(PeaksTest, SamplesBecomeRates) {
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
  EXPECT_EQ(run.processes[0].thread_samples.at(4).times.size(), 5u);
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

TEST_F(PeaksTest, LastSampleCloseToAnotherGivesNoPeak) {
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
  EXPECT_EQ(run.processes[0].thread_samples.at(4).times.size(), 3u);
  EXPECT_NEAR(MakePeaks(run)[0].rows[0].peak, 0.1, 1e-3);
}

TEST_F(PeaksTest, ProcessOfAFewMillisecondsHasNoRates) {
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

TEST_F(PeaksTest, HostIsNeverBusierThanItsCores) {
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

}  // namespace
}  // namespace millrace::report
