// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard/dashboard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>

#include "io/base/printable.h"
#include "profiler/session.h"
#include "tools/report/diagnosis.h"
#include "tools/report/op_table.h"
#include "tools/report/page.h"
#include "tools/report/peaks.h"

namespace millrace::dashboard {
namespace {

using http::Response;
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

// A page shows the newest spans only: a live run has far less than these.
constexpr uint64_t kMemoryBytes = 256 << 20;
constexpr size_t kMaxSpans = 500000;

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

void AddType(const std::string& name, const char* help, const char* type, std::string& out) {
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

bool IsMetricName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The value of a label, between its quotes.
std::string LabelValue(const std::string& text) {
  std::string value;
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') value += '\\';
    value += c;
  }
  return value;
}

void AddMetrics(const RunData& run, std::string& out) {
  if (run.metrics.empty()) return;
  for (size_t c = 0; c < run.metric_names.size(); ++c) {
    const std::string& metric = run.metric_names[c];
    if (!IsMetricName(metric)) continue;
    const bool counter = metric == "step" || metric == "examples";
    const std::string name = "millrace_last_test_" + metric;
    AddType(name, "of the newest row of metrics.csv", counter ? "counter" : "gauge", out);
    out += name + " " + Number(run.metrics.back()[c]) + "\n";
  }
}

}  // namespace

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
      out += std::string(exported.name) + "{process=\"" + LabelValue(process.name) + "\"" +
             exported.label + "} " + Number(values->second.back()) + "\n";
    }
  }
  return out;
}

namespace {

// Requests the newest spans from the processes of the run. The spans of the previous request are
// shown now. Does not follow a link, nor block on a FIFO.
void RequestSpans(const std::string& run_dir) {
  const std::string path = run_dir + "/" + profiler::kWatchedFile;
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0) return;
  constexpr std::string_view kText = "spans are wanted\n";
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    [[maybe_unused]] const ssize_t written = ::write(fd, kText.data(), kText.size());
  }
  ::close(fd);
}

Result<std::string> Data(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kRecent, kMemoryBytes));
  RequestSpans(options.run_dir);
  return PageDataJson(run, DiagnoseRun(run), MakeOpTable(run), MakePeaks(run), kMaxSpans);
}

Response FromResult(const Result<std::string>& text, const char* type) {
  if (!text.ok()) return {.code = 500, .body = text.status().message() + "\n"};
  return {.type = type, .body = *text};
}

Result<std::string> Metrics(const DashboardOptions& options) {
  ASSIGN_OR_RETURN(const RunData run, LoadRun(options.run_dir, Traces::kNone, kMemoryBytes));
  return PrometheusText(run);
}

Response Page() {
  const std::string nonce = report::NewNonce();
  return {.type = "text/html; charset=utf-8",
          .policy = report::ContentPolicy(nonce) + "; frame-ancestors 'none'",
          .body = PageHtml("", nonce)};
}

Response Handle(const DashboardOptions& options, const http::Request& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.code = 405, .body = "expected GET or HEAD\n"};
  }
  const std::string_view path = request.path;
  if (path == "/") return Page();
  if (path == "/data.json") return FromResult(Data(options), "application/json");
  if (path == "/metrics") return FromResult(Metrics(options), "text/plain; version=0.0.4");
  return {.code = 404, .body = "expected /, /data.json or /metrics\n"};
}

}  // namespace

Result<std::unique_ptr<Dashboard>> Dashboard::Start(const DashboardOptions& options) {
  const auto handle = [options](http::Request& request, Response& response) {
    try {
      response = Handle(options, request);
    } catch (const std::bad_alloc&) {
      response = {.code = 500, .body = "not enough memory\n"};
    }
  };
  ASSIGN_OR_RETURN(auto server,
                   http::Server::Start({.port = options.port, .thread_name = "dashboard"}, handle));
  return std::make_unique<Dashboard>(std::move(server));
}

}  // namespace millrace::dashboard
