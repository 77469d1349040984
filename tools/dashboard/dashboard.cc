#include "tools/dashboard/dashboard.h"

#include <fstream>

#include "profiler/session.h"
#include "tools/dashboard/prometheus.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/page_data.h"
#include "tools/report/peaks.h"
#include "tools/report/verdict.h"

namespace millrace::tools {
namespace {

// Asks the processes of the run for their newest spans; those that they left before are shown now.
void AskForSpans(const std::string& run_dir) {
  std::ofstream(run_dir + "/" + profiler::kWatchedFile) << "spans are wanted\n";
}

Result<std::string> Data(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kRecent));
  AskForSpans(options.run_dir);
  return PageDataJson(run, JudgeRun(run), MakeOpTable(run), MakePeaks(run), SIZE_MAX);
}

HttpAnswer FromResult(const Result<std::string>& text, const char* type) {
  if (!text.ok()) return {.code = 500, .body = text.status().message() + "\n"};
  return {.type = type, .body = *text};
}

Result<std::string> Metrics(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kNone));
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
