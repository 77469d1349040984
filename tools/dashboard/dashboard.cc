// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard/dashboard.h"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "profiler/session.h"
#include "tools/report/diagnosis.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/peaks.h"

namespace millrace::dashboard {
namespace {

using report::DiagnoseRun;
using report::LoadRun;
using report::MakeOpTable;
using report::MakePeaks;
using report::PageDataJson;
using report::PageHtml;
using report::ProcessData;
using report::RunData;
using report::Traces;

struct Exported {
  const char* name;
  const char* help;
  const char* type;
  const char* column;
  const char* label;  // in addition to process; may be empty
};

constexpr Exported kExported[] = {
    {"millrace_process_cpu_seconds_total", "CPU time", "counter", "user_s_total", ",mode=\"user\""},
    {"millrace_process_cpu_seconds_total", "", "", "system_s_total", ",mode=\"system\""},
    {"millrace_process_resident_bytes", "resident memory", "gauge", "resident_bytes", ""},
    {"millrace_process_page_faults_total", "page faults", "counter", "minor_faults_total",
     ",kind=\"minor\""},
    {"millrace_process_page_faults_total", "", "", "major_faults_total", ",kind=\"major\""},
    {"millrace_process_context_switches_total", "context switches", "counter",
     "voluntary_switches_total", ",kind=\"voluntary\""},
    {"millrace_process_context_switches_total", "", "", "involuntary_switches_total",
     ",kind=\"involuntary\""},
    {"millrace_process_read_bytes_total", "bytes read, cached or not", "counter",
     "read_bytes_total", ""},
    {"millrace_process_written_bytes_total", "bytes written", "counter", "written_bytes_total", ""},
    {"millrace_process_network_bytes_total", "bytes on own TCP connections", "counter",
     "tcp_sent_bytes_total", ",direction=\"sent\""},
    {"millrace_process_network_bytes_total", "", "", "tcp_received_bytes_total",
     ",direction=\"received\""},
    {"millrace_process_network_packets_total", "packets on own TCP connections", "counter",
     "tcp_sent_packets_total", ",direction=\"sent\""},
    {"millrace_process_network_packets_total", "", "", "tcp_received_packets_total",
     ",direction=\"received\""},
    {"millrace_process_connections", "open TCP connections", "gauge", "tcp_connections", ""},
    {"millrace_host_cpu_busy_seconds_total", "CPU time of all cores, as this process sees its host",
     "counter", "host_busy_s_total", ""},
    {"millrace_host_used_bytes", "memory in use on the host", "gauge", "host_used_bytes", ""},
};

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

void AddType(const std::string& name, const char* help, const char* type, std::string& out) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void AddMetrics(const RunData& run, std::string& out) {
  if (run.metrics.empty()) return;
  for (size_t c = 0; c < run.metric_names.size(); ++c) {
    const std::string& metric = run.metric_names[c];
    const bool counter = metric == "step" || metric == "examples";
    const std::string name = "millrace_last_test_" + metric;
    AddType(name, "of the newest row of metrics.csv", counter ? "counter" : "gauge", out);
    out += name + " " + Number(run.metrics.back()[c]) + "\n";
  }
}

std::string PrometheusText(const RunData& run) {
  std::string out;
  AddType("millrace_up", "1 while the run is in progress", "gauge", out);
  const auto status = run.run.find("status");
  const bool running = status != run.run.end() && status->second == "running";
  out += std::string("millrace_up ") + (running ? "1" : "0") + "\n";
  AddMetrics(run, out);
  for (const Exported& exported : kExported) {
    if (*exported.type) AddType(exported.name, exported.help, exported.type, out);
    for (const ProcessData& process : run.processes) {
      const auto values = process.samples.find(exported.column);
      if (values == process.samples.end() || values->second.empty()) continue;
      out += std::string(exported.name) + "{process=\"" + process.name + "\"" + exported.label +
             "} " + Number(values->second.back()) + "\n";
    }
  }
  return out;
}

// Requests the newest spans from the processes of the run. The spans of the previous request are
// shown now.
void RequestSpans(const std::string& run_dir) {
  std::ofstream(run_dir + "/" + profiler::kWatchedFile) << "spans are wanted\n";
}

Result<std::string> Data(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kRecent));
  RequestSpans(options.run_dir);
  return PageDataJson(run, DiagnoseRun(run), MakeOpTable(run), MakePeaks(run), SIZE_MAX);
}

HttpResponse FromResult(const Result<std::string>& text, const char* type) {
  if (!text.ok()) return {.code = 500, .body = text.status().message() + "\n"};
  return {.type = type, .body = *text};
}

Result<std::string> Metrics(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kNone));
  return PrometheusText(run);
}

HttpResponse Handle(const DashboardOptions& options, const std::string& path) {
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

}  // namespace millrace::dashboard
