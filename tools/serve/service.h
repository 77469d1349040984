// SPDX-License-Identifier: Apache-2.0
// The requests of the daemon.
//
//   POST /v1/score   scores rows: score_json.h
//   GET  /v1/model   describes the model that is served
//   GET  /metrics    for Prometheus
//   GET  /healthz    200 while the process runs
//   GET  /readyz     200 while it accepts requests, 503 once it stops
//
// /v1 and /metrics need the token, if there is one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "io/base/status.h"
#include "tools/http/server.h"
#include "tools/serve/metrics.h"
#include "tools/serve/model_follower.h"
#include "tools/serve/thrift_session.h"

namespace millrace::serve {

struct ServiceOptions {
  http::ServerOptions server;  // host, port, threads, limits, TLS
  std::string token;           // empty: anyone may ask
  UnknownFields unknown = UnknownFields::kError;
};

class Service {
  struct Private {};  // only Start creates services

 public:
  // `follower` and `metrics` outlive the service.
  static Result<std::unique_ptr<Service>> Start(const ServiceOptions& options,
                                                ModelFollower& follower, Metrics& metrics);
  Service(Private, const ServiceOptions& options, ModelFollower& follower, Metrics& metrics);

  uint16_t port() const { return server_->port(); }
  // Completes the requests that have begun; see http::Server::Drain.
  void Drain(int timeout_ms);

 private:
  int CheckHead(const http::Request& request) const;
  void Handle(http::Request& request, http::Response& response);
  void Score(http::Request& request, http::Response& response);
  void AppendMetrics(http::Response& response);

  const ServiceOptions options_;
  const ThriftOptions thrift_options_;
  ModelFollower& follower_;
  Metrics& metrics_;
  std::atomic<bool> draining_ = false;
  std::unique_ptr<http::Server> server_;  // last member: it stops before the others are destroyed
};

}  // namespace millrace::serve
