// SPDX-License-Identifier: Apache-2.0
// Run folders that somebody else wrote, or a full disk cut: a report or an error, never a crash.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "io/base/printable.h"
#include "io/base/random.h"
#include "io/record/compressor.h"
#include "tests/tools/report/corpus_run.h"
#include "tools/report/page.h"

namespace millrace::report {
namespace {

using Files = std::map<std::string, std::string>;

class UntrustedRunTest : public testing::Test {
 protected:
  void SetUp() override { WriteRun(CorpusRun(), folder_); }

  // Replaces a file of the run, and loads all of them.
  RunData LoadWith(const std::string& name, const std::string& bytes) {
    test::WriteFile(folder_ / name, bytes);
    return Load();
  }
  RunData Load(uint64_t memory_bytes = kRunMemoryBytes) {
    Result<RunData> run = LoadRun(folder_.path(), Traces::kWhole, memory_bytes);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? std::move(*run) : RunData();
  }
  // The run has one warning, with these words, and still a diagnosis.
  static void ExpectOneWarning(const RunData& run, const std::string& words) {
    ASSERT_EQ(run.warnings.size(), 1u) << testing::PrintToString(run.warnings);
    EXPECT_NE(run.warnings[0].find(words), std::string::npos) << run.warnings[0];
    EXPECT_NE(DiagnoseRun(run).bottleneck, "unknown");
  }

  test::TemporaryFolder folder_;
};

TEST_F(UntrustedRunTest, WholeRunHasNoWarning) {
  const RunData run = Load();
  EXPECT_TRUE(run.warnings.empty()) << testing::PrintToString(run.warnings);
  EXPECT_EQ(run.processes.size(), 2u);
  EXPECT_NE(DiagnoseRun(run).bottleneck, "unknown");
}

TEST_F(UntrustedRunTest, SamplesWithoutTimesAreIgnored) {
  ExpectOneWarning(LoadWith("resources-z.csv", "x\n1\n2\n"), "resources-z.csv: line 1: expected");
  ExpectOneWarning(LoadWith("resources-z.csv", ""), "resources-z.csv: expected a line of column");
  ExpectOneWarning(
      LoadWith("resources-z.csv", "steady_ns,steady_ns,clock_offset_ns,threads\n1,2,3,\n"),
      "different column names");
}

TEST_F(UntrustedRunTest, LongColumnNamesAreIgnored) {
  const std::string name(1000, 'a');
  ExpectOneWarning(LoadWith("resources-z.csv", "steady_ns,clock_offset_ns," + name + "b," + name +
                                                   "c,threads\n1,2,3,4,\n5,6,7,8,\n"),
                   "names of at most 256 bytes");
}

TEST_F(UntrustedRunTest, LinesThatAreNoSamplesAreLeftOut) {
  const RunData run = LoadWith("resources-z.csv",
                               "steady_ns,clock_offset_ns,a,threads\n"
                               "1000000000,0,5,main@1=1+1\n"
                               "2000000000,0,inf,\n"
                               "2000000000,0\n"
                               "9e18,0,1,\n"
                               "3000000000,0,7,main@1=2+1;main@1=9+9;x@2=nan+1\n"
                               "6000000000,0,8,\n"
                               "7000000000,0,9");
  ExpectOneWarning(run, "line 3: expected a number for a (3 of 6 lines are no samples)");
  const ProcessData& z = *std::find_if(run.processes.begin(), run.processes.end(),
                                       [](const ProcessData& p) { return p.name == "z"; });
  EXPECT_EQ(z.samples.at("a"), (std::vector<double>{5, 7, 8}));
  EXPECT_EQ(z.num_samples(), 3u);
  ASSERT_EQ(z.thread_samples.size(), 1u);
  EXPECT_EQ(z.thread_samples.at(1).times.size(), 2u);
  EXPECT_EQ(z.thread_samples.at(1).times[1].cpu_s, 3);
}

TEST_F(UntrustedRunTest, TimesBeyondTheLimitAreIgnored) {
  test::WriteFile(folder_ / "trace-worker-9.json",
                  R"({"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2}],)"
                  R"("otherData":{"steady_origin_ns":"9223372036854775000"}})");
  ExpectOneWarning(Load(), "trace-worker-9.json: offset");
}

TEST_F(UntrustedRunTest, LongestTimesDoNotOverflow) {
  test::WriteFile(folder_ / "trace-worker-9.json",
                  R"({"traceEvents":[{"ph":"X","name":"step","ts":-1e300,"dur":1e300},)"
                  R"({"ph":"X","name":"step","cat":"step","ts":1e300,"dur":1e300}],)"
                  R"("otherData":{"steady_origin_ns":"1000000000000000000",)"
                  R"("clock_offset_ns":"1000000000000000000"}})");
  const RunData run = Load();
  EXPECT_TRUE(run.warnings.empty());
  for (const ProcessData& process : run.processes) {
    for (const TracedThread& thread : process.threads) {
      for (const Span& span : thread.spans) {
        EXPECT_GE(span.begin_ns, 0);
        EXPECT_GE(span.duration_ns(), 0);
        EXPECT_LE(span.duration_ns(), kMaxTimeNs);
      }
    }
  }
}

TEST_F(UntrustedRunTest, CompressedFileBeyondTheLimitIsIgnored) {
  auto gzip = io::MakeCompressor(io::Compression::kGzip, 9);
  ASSERT_TRUE(gzip.ok());
  RawBuffer packed;
  ASSERT_TRUE((*gzip)->Add("{\"traceEvents\":[" + std::string(64 << 20, ' '), packed).ok());
  ASSERT_TRUE((*gzip)->Finish(packed).ok());
  test::WriteFile(folder_ / "trace-bomb.json.gz", {packed.data(), packed.size()});
  ExpectOneWarning(Load(32 << 20), "trace-bomb.json.gz: needs more than what is left of the limit");
}

TEST_F(UntrustedRunTest, SmallFileThatNeedsMuchMemoryIsIgnored) {
  std::string events;
  for (int i = 0; i < 20000; ++i) events += ",{\"ph\":\"X\",\"tid\":" + std::to_string(i) + "}";
  test::WriteFile(folder_ / "trace-bomb.json", "{\"traceEvents\":[{}" + events + "]}");
  ExpectOneWarning(Load(4 << 20), "trace-bomb.json: needs more than");
}

TEST_F(UntrustedRunTest, FilesThatAreNotRegularDoNotBlock) {
  ASSERT_EQ(::mkfifo((folder_ / "resources-fifo.csv").c_str(), 0600), 0);
  ExpectOneWarning(Load(), "resources-fifo.csv: expected a regular file, found a FIFO");
  ::unlink((folder_ / "resources-fifo.csv").c_str());
  ASSERT_EQ(::symlink("/etc/passwd", (folder_ / "resources-link.csv").c_str()), 0);
  ExpectOneWarning(Load(), "resources-link.csv: expected a regular file, found a symbolic link");
  ::unlink((folder_ / "resources-link.csv").c_str());
  ASSERT_EQ(::mkdir((folder_ / "resources-folder.csv").c_str(), 0700), 0);
  ExpectOneWarning(Load(), "resources-folder.csv: expected a regular file, found a directory");
}

TEST_F(UntrustedRunTest, ViewsOfAnEventDoNotShareABuffer) {
  const std::string id = "\\u0030x0" + std::string(100, '0') + "ff";
  test::WriteFile(folder_ / "trace-ps-1.json", "{\"traceEvents\":[{\"id\":\"" + id +
                                                   "\",\"ph\":\"\\u0073" + std::string(500, 's') +
                                                   "\"}]}");
  const RunData run = Load();
  const auto process = std::find_if(run.processes.begin(), run.processes.end(),
                                    [](const ProcessData& p) { return p.name == "ps-1"; });
  ASSERT_EQ(process->flows.size(), 1u);
  EXPECT_EQ(process->flows[0].id, 255u);
}

std::string Mutated(const Files& files, Random& random, Files& out) {
  constexpr const char* kNumbers[] = {"nan",    "inf", "-1",     "1e308", "9223372036854775807",
                                      "1e-320", "",    "-1e300", "0x7f",  "18446744073709551616"};
  out = files;
  auto file = out.begin();
  std::advance(file, static_cast<ptrdiff_t>(random.Below(out.size())));
  std::string& bytes = file->second;
  const auto position = [&] { return static_cast<size_t>(random.Below(bytes.size() + 1)); };
  const uint64_t kind = random.Below(8);
  if (kind == 0) {
    bytes.resize(position());
  } else if (kind == 1) {
    for (uint64_t i = 0; i <= random.Below(20); ++i)
      if (size_t at = position(); at < bytes.size())
        bytes[at] ^= static_cast<char>(1 << random.Below(8));
  } else if (kind == 2) {
    bytes.erase(position(), random.Below(200));
  } else if (kind == 3) {
    bytes.clear();
  } else if (kind == 4) {
    for (char& c : bytes) c = static_cast<char>(random.Next());
  } else if (kind == 5) {
    const size_t at = bytes.find_first_of("0123456789", position());
    if (at != std::string::npos) {
      const size_t end = std::min(bytes.find_first_not_of("0123456789.", at), bytes.size());
      bytes.replace(at, end - at, kNumbers[random.Below(std::size(kNumbers))]);
    }
  } else if (kind == 6) {  // a column of every line
    const uint64_t column = random.Below(20);
    std::string cut;
    for (size_t begin = 0; begin < bytes.size();) {
      const size_t end = std::min(bytes.find('\n', begin), bytes.size());
      const std::string line = bytes.substr(begin, end - begin);
      const auto cells = CsvCells(line);
      for (size_t c = 0; c < cells.size(); ++c)
        if (c != column) cut += std::string(c > 0 ? "," : "") + std::string(cells[c]);
      cut += '\n';
      begin = end + 1;
    }
    bytes = cut;
  } else {
    bytes.insert(position(), bytes.substr(position(), 300));
  }
  return file->first;
}

// Everything that programs compute from a run.
void UseAll(const RunData& run) {
  const Diagnosis diagnosis = DiagnoseRun(run);
  const std::vector<OpRow> ops = MakeOpTable(run);
  const std::vector<ProcessPeaks> peaks = MakePeaks(run);
  for (const std::string& text : {OpTableText(ops), BreakdownText(diagnosis), PeaksText(peaks)}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
  EXPECT_TRUE(PageDataJson(run, diagnosis, ops, peaks, 1000).ok());
}

TEST(MutatedRunTest, EveryMutationGivesAReportOrAnError) {
  const Files files = CorpusRun();
  ASSERT_EQ(files.size(), 7u);
  int reports = 0, warned = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Files mutated;
    const std::string name = Mutated(files, random, mutated);
    RunLoader loader("run", Traces::kWhole);
    for (const auto& [file, bytes] : mutated) loader.Add(file, bytes);
    const Result<RunData> run = loader.Finish();
    if (!run.ok()) continue;
    ++reports;
    for (const std::string& warning : run->warnings)
      EXPECT_NE(warning.find(name), std::string::npos) << warning;
    warned += !run->warnings.empty();
    UseAll(*run);
  }
  EXPECT_EQ(reports, 600) << "one bad file must not keep the others from the report";
  EXPECT_GT(warned, 50);
}

}  // namespace
}  // namespace millrace::report
