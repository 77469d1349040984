// SPDX-License-Identifier: Apache-2.0
// The report page of a running job on loopback, and its metrics for Prometheus.
//
//   /           the page, which fetches data.json every second
//   /data.json  PageDataJson of the run folder, with the newest spans of all processes
//   /metrics    the Prometheus text format
//
// It runs inside a process that trains. The readers of the run folder cannot crash
// (tools/report/run_data.h), and their memory is bounded.
#pragma once

#include <memory>
#include <string>

#include "io/base/status.h"
#include "tools/http/server.h"
#include "tools/report/run_data.h"

namespace millrace::dashboard {

// The body of /metrics.
std::string PrometheusText(const report::RunData& run);

struct DashboardOptions {
  uint16_t port = 0;    // 0: any free one
  std::string run_dir;  // may be created later
};

class Dashboard {
 public:
  static Result<std::unique_ptr<Dashboard>> Start(const DashboardOptions& options);
  explicit Dashboard(std::unique_ptr<http::Server> server) : server_(std::move(server)) {}

  // "http://127.0.0.1:8080/"
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/"; }

 private:
  std::unique_ptr<http::Server> server_;
};

}  // namespace millrace::dashboard
