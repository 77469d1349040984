// SPDX-License-Identifier: Apache-2.0
// millrace-report: bottleneck diagnosis, op table, peaks and report page of a run folder; several
// runs side by side.

#include <gflags/gflags.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "io/base/printable.h"
#include "io/record/output_file.h"
#include "tools/common/flags.h"
#include "tools/common/help.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/report/comparison.h"
#include "tools/report/diagnosis.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/peaks.h"
#include "tools/report/run_data.h"

DEFINE_bool(html, true, "write RUN_DIR/report.html; of several runs --compare");
DEFINE_string(compare, "", "the page of several runs; empty: compare.html in the first run folder");
DEFINE_string(watch, "",
              "list the runs in this folder, on a terminal until Ctrl-C, and nothing else");
DEFINE_bool(merge, true, "write RUN_DIR/trace-all.json.gz, all processes on one time axis");
DEFINE_bool(json, false, "print the bottleneck diagnosis as JSON, and nothing else");
DEFINE_uint64(max_spans, 1500000,
              "spans in the page's timeline; of a longer trace only the beginning is shown");
DEFINE_uint64(ops, 0, "rows of the op table; 0: all");
DEFINE_double(memory_gb, static_cast<double>(millrace::report::kRunMemoryBytes) / 1e9,
              "memory for the data of a run, in GB; files that do not fit are ignored");
DEFINE_double(network_gbit, 0, "bandwidth of the network in Gbit/s, to compare with; 0: unknown");
DEFINE_double(disk_mb, 0, "bandwidth of the disk in MB/s, to compare with; 0: unknown");

namespace millrace::report {
namespace {

using tools::Answer;
using tools::Args;
using tools::BytesText;
using tools::CommandSpec;
using tools::Fail;
using tools::File;
using tools::IgnoreBrokenPipes;
using tools::ParsedLine;
using tools::ParseLine;
using tools::WithCommas;

constexpr char kProgram[] = "millrace-report";

struct ReportOptions {
  Limits limits;
  size_t max_spans = 0;
  size_t top_ops = 0;  // rows of the table; 0: all
  uint64_t memory_bytes = kRunMemoryBytes;
  bool json = false;  // print the diagnosis only
  bool write_html = true;
  bool write_trace = true;
  std::string compare;  // the page of several runs
};

const CommandSpec& ReportSpec() {
  static const CommandSpec spec = {
      .name = "millrace-report",
      .job = "diagnoses the bottleneck of a run, and writes its report page; compares several runs",
      .arguments = "RUN_DIR...",
      .groups = {{"Output",
                  {"html", "compare", "merge", "json", "max_spans", "ops", "watch"},
                  {{"compare", File()}, {"watch", File()}}},
                 {"Limits", {"memory_gb", "network_gbit", "disk_mb"}}},
      .always = {"watch"},
      .needs = {{{"json", "memory_gb", "network_gbit", "disk_mb"}, {"watch"}, {""}},
                {{"html", "merge", "max_spans", "ops", "compare"}, {"watch"}, {""}},
                {{"html", "merge", "max_spans", "ops", "compare"}, {"json"}, {"false"}},
                {{"max_spans", "compare"}, {"html"}}},
      .examples = {"millrace-report runs/1", "millrace-report runs/sync runs/async --nohtml",
                   "millrace-report runs/* --compare=runs.html", "millrace-report --watch=runs"}};
  return spec;
}

Result<ReportOptions> ReportOptionsFromFlags() {
  RETURN_IF_ERROR(tools::CheckEffects(ReportSpec()));
  if (FLAGS_network_gbit < 0 || FLAGS_disk_mb < 0)
    return Invalid("--network_gbit and --disk_mb: expected no negative number");
  if (!(FLAGS_memory_gb > 0 && FLAGS_memory_gb <= 1e6))
    return Invalid("--memory_gb: expected a number above 0 and up to 1000000");
  ReportOptions options;
  options.limits = {.network_bytes_per_s = FLAGS_network_gbit * 1e9 / 8,
                    .disk_bytes_per_s = FLAGS_disk_mb * 1e6};
  options.max_spans = FLAGS_max_spans;
  options.top_ops = FLAGS_ops;
  options.memory_bytes = static_cast<uint64_t>(FLAGS_memory_gb * 1e9);
  options.json = FLAGS_json;
  options.write_html = FLAGS_html;
  options.write_trace = FLAGS_merge;
  options.compare = FLAGS_compare;
  return options;
}

void PrintHead(const RunData& run) {
  const auto text = [&](const char* name) {
    const auto found = run.run.find(name);
    return found == run.run.end() ? std::string("?") : Printable(found->second);
  };
  std::printf("run       %s\n", Printable(run.path).c_str());
  if (!run.run_json.empty()) {
    std::printf("program   %s %s, %s, started %s\n", text("program").c_str(),
                text("version").c_str(), text("status").c_str(), text("start_time").c_str());
    std::printf("host      %s: %s, %s cores\n", text("host.name").c_str(), text("host.cpu").c_str(),
                text("host.cores").c_str());
  }
  for (const ProcessData& process : run.processes) {
    size_t spans = 0;
    for (const TracedThread& thread : process.threads) spans += thread.spans.size();
    std::printf("process   %s: %s spans in %zu threads (trace of %s), %zu samples\n",
                Printable(process.name).c_str(), WithCommas(spans).c_str(), process.threads.size(),
                BytesText(process.trace_bytes).c_str(), process.num_samples());
  }
}

// Of many bad files the first ones show the cause.
void PrintWarnings(const RunData& run) {
  constexpr size_t kMaxShown = 20;
  for (size_t i = 0; i < std::min(kMaxShown, run.warnings.size()); ++i)
    std::fprintf(stderr, "%s: ignored: %s\n", kProgram, Printable(run.warnings[i]).c_str());
  if (run.warnings.size() > kMaxShown)
    std::fprintf(stderr, "%s: and %zu more files\n", kProgram, run.warnings.size() - kMaxShown);
}

Status WritePage(const RunData& run, const Diagnosis& diagnosis, const std::vector<OpRow>& ops,
                 const std::vector<ProcessPeaks>& peaks, size_t max_spans) {
  ASSIGN_OR_RETURN(const std::string data, PageDataJson(run, diagnosis, ops, peaks, max_spans));
  ASSIGN_OR_RETURN(io::OutputFile file,
                   io::OutputFile::Create(run.path + "/report.html", io::AtPath::kReplace));
  const std::string page = PageHtml(data, NewNonce());
  RETURN_IF_ERROR(file.Write(page));
  RETURN_IF_ERROR(file.Commit());
  std::printf("page      %s/report.html (%s)\n", Printable(run.path).c_str(),
              BytesText(page.size()).c_str());
  return {};
}

void PrintDiagnosis(const Diagnosis& diagnosis) {
  std::printf("diagnosis %s\n", Printable(diagnosis.sentence).c_str());
  for (const Advice& advice : diagnosis.advice)
    std::printf("try       %s\n", Printable(AdviceText(advice)).c_str());
  for (const std::string& line : diagnosis.evidence)
    std::printf("          %s\n", Printable(line).c_str());
}

Status Report(const RunData& run, const ReportOptions& options) {
  const Diagnosis diagnosis = DiagnoseRun(run, options.limits);
  PrintDiagnosis(diagnosis);
  PrintHead(run);
  const std::vector<OpRow> ops = MakeOpTable(run);
  const std::vector<ProcessPeaks> peaks = MakePeaks(run);
  if (!ops.empty()) {
    std::vector<OpRow> shown = ops;
    if (options.top_ops > 0 && shown.size() > options.top_ops) shown.resize(options.top_ops);
    std::printf("\n%s", OpTableText(shown).c_str());
  }
  if (!diagnosis.workers.empty()) std::printf("\n%s", BreakdownText(diagnosis).c_str());
  if (!peaks.empty()) std::printf("\n%s", PeaksText(peaks).c_str());
  if (options.write_trace && run.num_spans() > 0) {
    const std::string path = run.path + "/trace-" + std::string(kMergedTrace) + ".json.gz";
    RETURN_IF_ERROR(WriteMergedTrace(run, path));
    std::printf("trace     %s\n", Printable(path).c_str());
  }
  return options.write_html ? WritePage(run, diagnosis, ops, peaks, options.max_spans) : Status();
}

// Frees most of the memory of a run, and keeps its samples.
void WithoutSpans(RunData& run) {
  for (ProcessData& process : run.processes) {
    process.threads = {};
    process.args = {};
    process.counters = {};
    process.flows = {};
  }
}

Status ReportComparison(std::vector<ComparedRun> compared, const std::vector<RunData>& runs,
                        const ReportOptions& options) {
  const Comparison comparison = Compare(std::move(compared));
  std::vector<const RunData*> all;
  for (const RunData& run : runs) all.push_back(&run);
  std::printf("%s\n%s", ComparisonText(comparison).c_str(), ComparePeaksText(all).c_str());
  if (!options.write_html) return {};
  const std::string path =
      options.compare.empty() ? runs[0].path + "/compare.html" : options.compare;
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(path, io::AtPath::kReplace));
  const std::string page = ComparePageHtml(ComparisonJson(comparison), NewNonce());
  RETURN_IF_ERROR(file.Write(page));
  RETURN_IF_ERROR(file.Commit());
  std::printf("\npage      %s (%s)\n", Printable(path).c_str(), BytesText(page.size()).c_str());
  return {};
}

double WallNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Several runs have no own pages.
Status CheckNumberOfRuns(size_t runs) {
  if (runs < 2 && tools::IsGiven("compare"))
    return Invalid("--compare has no effect with one run: expected at least two run folders");
  if (runs < 2) return {};
  for (const char* flag : {"merge", "max_spans", "ops"}) {
    if (!tools::IsGiven(flag)) continue;
    return Invalid(std::string("--") + flag + " has no effect with several runs");
  }
  return {};
}

// On a terminal again and again; a second list replaces the first one.
Status Watch(const std::string& folder) {
  const bool follows = ::isatty(STDOUT_FILENO) == 1;
  if (follows) tools::CatchInterrupts();
  while (true) {
    ASSIGN_OR_RETURN(const std::string text, WatchText(folder, WallNow()));
    std::printf("%s%s", follows ? "\x1b[H\x1b[J" : "", text.c_str());
    std::fflush(stdout);
    if (!follows) return {};
    for (int tenth = 0; tenth < 10; ++tenth) {
      if (tools::Interrupted()) return {};
      ::usleep(100'000);
    }
  }
}

Status Go(const Args& paths) {
  ASSIGN_OR_RETURN(const ReportOptions options, ReportOptionsFromFlags());
  if (!FLAGS_watch.empty()) {
    if (!paths.empty()) return Invalid("--watch lists all runs of a folder: leave out " + paths[0]);
    return Watch(FLAGS_watch);
  }
  RETURN_IF_ERROR(CheckNumberOfRuns(paths.size()));
  if (paths.empty()) return Invalid("no run folder: expected millrace-report RUN_DIR");
  std::vector<RunData> runs;
  std::vector<ComparedRun> compared;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(RunData run, LoadRun(path, Traces::kWhole, options.memory_bytes));
    PrintWarnings(run);
    if (options.json) {
      std::fputs(DiagnosisJson(DiagnoseRun(run, options.limits)).c_str(), stdout);
      continue;
    }
    if (paths.size() == 1) return Report(run, options);
    compared.push_back(SummarizeRun(run, options.memory_bytes));
    // The first ones are those of the run.
    for (size_t w = run.warnings.size(); w < compared.back().warnings.size(); ++w)
      std::fprintf(stderr, "%s: %s\n", kProgram, Printable(compared.back().warnings[w]).c_str());
    WithoutSpans(run);
    runs.push_back(std::move(run));
  }
  return options.json ? Status() : ReportComparison(std::move(compared), runs, options);
}

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(ReportSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto status = Answer(ReportSpec(), line->action)) return *status;
  IgnoreBrokenPipes();  // the page is still written
  const Status status = Go(line->args);
  return status.ok() ? 0 : Fail(kProgram, status);
}

}  // namespace
}  // namespace millrace::report

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::report::kProgram, millrace::report::Main, argc,
                                      argv);
}
