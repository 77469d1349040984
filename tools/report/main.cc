// millrace-report: op table, verdict, peaks and report page from run folders.

#include <cstdio>

#include "io/record/output_file.h"
#include "tools/common/help.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/page_data.h"
#include "tools/report/peaks.h"
#include "tools/report/report_flags.h"
#include "tools/report/trace_file.h"

namespace millrace::tools {
namespace {

constexpr char kProgram[] = "millrace-report";

void PrintHead(const RunData& run) {
  const auto text = [&](const char* name) {
    const auto found = run.run.find(name);
    return found == run.run.end() ? std::string("?") : found->second;
  };
  std::printf("run       %s\n", run.path.c_str());
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
                process.name.c_str(), WithCommas(spans).c_str(), process.threads.size(),
                BytesText(process.trace_bytes).c_str(), process.num_samples());
  }
}

Status WritePage(const RunData& run, const Verdict& verdict, const std::vector<OpRow>& ops,
                 const std::vector<ProcessPeaks>& peaks, size_t max_spans) {
  ASSIGN_OR_RETURN(const std::string data, PageDataJson(run, verdict, ops, peaks, max_spans));
  ASSIGN_OR_RETURN(io::OutputFile file, io::OutputFile::Create(run.path + "/report.html"));
  const std::string page = PageHtml(data);
  RETURN_IF_ERROR(file.Write(page));
  RETURN_IF_ERROR(file.Commit());
  std::printf("page      %s/report.html (%s)\n", run.path.c_str(), BytesText(page.size()).c_str());
  return {};
}

Status Report(const RunData& run, const ReportOptions& options) {
  PrintHead(run);
  const Verdict verdict = JudgeRun(run, options.limits);
  const std::vector<OpRow> ops = MakeOpTable(run);
  const std::vector<ProcessPeaks> peaks = MakePeaks(run);
  if (!ops.empty()) {
    std::vector<OpRow> shown = ops;
    if (options.top_ops > 0 && shown.size() > options.top_ops) shown.resize(options.top_ops);
    std::printf("\n%s", OpTableText(shown).c_str());
  }
  if (!verdict.workers.empty()) std::printf("\n%s", SplitText(verdict).c_str());
  if (!peaks.empty()) std::printf("\n%s", PeaksText(peaks).c_str());
  std::printf("\nverdict   %s\n", verdict.sentence.c_str());
  for (const std::string& line : verdict.evidence) std::printf("          %s\n", line.c_str());
  if (options.write_trace && run.num_spans() > 0) {
    const std::string path = run.path + "/trace-" + std::string(kMergedTrace) + ".json.gz";
    RETURN_IF_ERROR(WriteMergedTrace(run, path));
    std::printf("trace     %s\n", path.c_str());
  }
  return options.write_html ? WritePage(run, verdict, ops, peaks, options.max_spans) : Status();
}

Status Go(const Args& paths) {
  ASSIGN_OR_RETURN(const ReportOptions options, ReportOptionsFromFlags());
  if (paths.empty()) return Invalid("no run folder: expected millrace-report RUN_DIR");
  std::vector<RunData> runs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(RunData run, LoadRun(path));
    if (options.json) {
      std::fputs(VerdictJson(JudgeRun(run, options.limits)).c_str(), stdout);
      continue;
    }
    RETURN_IF_ERROR(Report(run, options));
    std::printf("\n");
    runs.push_back(std::move(run));
  }
  if (runs.size() < 2) return {};
  std::vector<const RunData*> all;
  for (const RunData& run : runs) all.push_back(&run);
  std::printf("%s", ComparePeaksText(all).c_str());
  return {};
}

int Main(const std::vector<std::string>& words) {
  const Result<ParsedLine> line = ParseLine(ReportSpec(), {}, words);
  if (!line.ok()) return Fail(kProgram, line.status());
  if (const auto answered = Answer(ReportSpec(), line->action)) return *answered;
  IgnoreBrokenPipes();  // the page is written all the same
  const Status status = Go(line->args);
  return status.ok() ? 0 : Fail(kProgram, status);
}

}  // namespace
}  // namespace millrace::tools

int main(int argc, char** argv) {
  return millrace::tools::ProgramMain(millrace::tools::kProgram, millrace::tools::Main, argc, argv);
}
