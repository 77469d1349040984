#include "tools/dashboard/dashboard.h"

#include "profiler/trace.h"
#include "tools/dashboard/prometheus.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/page_data.h"
#include "tools/report/peaks.h"
#include "tools/report/trace_file.h"
#include "tools/report/verdict.h"

namespace millrace::tools {
namespace {

using io::Result;
using io::Status;

// Adds this process's newest spans, whose times are on the common clock as the samples' were.
Status AddOwnSpans(size_t newest, RunData& run) {
  if (!profiler::TracingOn()) return {};
  ProcessData& process = ProcessOf(run, profiler::ProcessName());
  RETURN_IF_ERROR(
      ReadTraceText(profiler::RecentTrace(newest), "the trace in memory", run.names, process));
  for (TracedThread& thread : process.threads) {
    for (Span& span : thread.spans) {
      span.begin_ns -= run.origin_ns;
      span.end_ns -= run.origin_ns;
    }
  }
  for (CounterSample& sample : process.counters) sample.time_ns -= run.origin_ns;
  for (Flow& flow : process.flows) flow.time_ns -= run.origin_ns;
  return {};
}

Result<std::string> Data(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(RunData run, LoadRun(options.run_dir, /*with_traces=*/false));
  RETURN_IF_ERROR(AddOwnSpans(options.newest_spans, run));
  return PageDataJson(run, JudgeRun(run), MakeOpTable(run), MakePeaks(run), SIZE_MAX);
}

HttpAnswer FromResult(const Result<std::string>& text, const char* type) {
  if (!text.ok()) return {.code = 500, .body = text.status().message() + "\n"};
  return {.type = type, .body = *text};
}

Result<std::string> Metrics(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, /*with_traces=*/false));
  return PrometheusText(run);
}

HttpAnswer Handle(const DashboardOptions& options, const std::string& path) {
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = PageHtml("")};
  if (path == "/data.json") return FromResult(Data(options), "application/json");
  if (path == "/metrics") return FromResult(Metrics(options), "text/plain; version=0.0.4");
  return {.code = 404, .body = "expected /, /data.json or /metrics\n"};
}

}  // namespace

Result<std::unique_ptr<Dashboard>> Dashboard::Start(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(auto server, HttpServer::Start(options.port, [options](const std::string& path) {
                     return Handle(options, path);
                   }));
  return std::make_unique<Dashboard>(std::move(server));
}

}  // namespace millrace::tools
