// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/service.h"

#include <chrono>
#include <new>
#include <string_view>

#include "io/base/json.h"
#include "tools/serve/score_json.h"

namespace millrace::serve {
namespace {

constexpr char kJson[] = "application/json";

struct Route {
  std::string_view path, method;
};
constexpr Route kRoutes[] = {{"/v1/score", "POST"},
                             {"/v1/model", "GET"},
                             {"/metrics", "GET"},
                             {"/healthz", "GET"},
                             {"/readyz", "GET"}};

// 0, 404 or 405.
int CheckRoute(const http::Request& request) {
  for (const Route& route : kRoutes) {
    if (request.path != route.path) continue;
    const bool allowed =
        request.method == route.method || (route.method == "GET" && request.method == "HEAD");
    return allowed ? 0 : 405;
  }
  return 404;
}

void SetError(int code, std::string_view message, http::Response& response) {
  response.code = code;
  response.type = kJson;
  response.body.clear();
  JsonWriter json(response.body);
  json.BeginObject();
  json.Key("error");
  json.String(message);
  json.EndObject();
}

}  // namespace

Service::Service(Private, const ServiceOptions& options, ModelFollower& follower, Metrics& metrics)
    : options_(options),
      thrift_options_{.unknown = options.unknown, .token = options.token},
      follower_(follower),
      metrics_(metrics) {}

Result<std::unique_ptr<Service>> Service::Start(const ServiceOptions& options,
                                                ModelFollower& follower, Metrics& metrics) {
  auto service = std::make_unique<Service>(Private{}, options, follower, metrics);
  http::ServerOptions server = options.server;
  server.thread_name = "serve";
  server.for_programs = true;
  server.check_head = [self = service.get()](const http::Request& request) {
    return self->CheckHead(request);
  };
  server.frames = [self = service.get()] {
    return MakeThriftSession(self->follower_.scorer(), self->thrift_options_, self->metrics_);
  };
  ASSIGN_OR_RETURN(service->server_,
                   http::Server::Start(server, [self = service.get()](http::Request& request,
                                                                      http::Response& response) {
                     self->Handle(request, response);
                   }));
  return service;
}

void Service::Drain(int timeout_ms) {
  draining_ = true;
  server_->Drain(timeout_ms);
}

int Service::CheckHead(const http::Request& request) const {
  const bool needs_token = request.path != "/healthz" && request.path != "/readyz";
  if (needs_token && !options_.token.empty() &&
      !http::IsBearer(request.authorization, options_.token)) {
    metrics_.Count(Protocol::kHttp, 401, {}, {});
    return 401;
  }
  return CheckRoute(request);
}

void Service::Handle(http::Request& request, http::Response& response) {
  try {
    if (request.path == "/v1/score") return Score(request, response);
    response.type = kJson;
    if (request.path == "/v1/model") {
      const Status status = follower_.AppendInfo(response.body);
      if (!status.ok()) SetError(500, status.message(), response);
    } else if (request.path == "/metrics") {
      AppendMetrics(response);
    } else if (request.path == "/readyz" && draining_) {
      SetError(503, "the server stops", response);
    } else {
      response.body = "{\"status\":\"ok\"}";
    }
  } catch (const std::bad_alloc&) {
    SetError(500, "not enough memory", response);
  }
}

void Service::Score(http::Request& request, http::Response& response) {
  static thread_local JsonScorer scorer;
  const auto begin = std::chrono::steady_clock::now();
  millrace_score_counts counts;
  response.type = kJson;
  const Status status =
      scorer.Score(follower_.scorer(), options_.unknown, request.body, response.body, counts);
  if (!status.ok()) {
    SetError(status.code() == Code::kInvalid ? 400 : 500, status.message(), response);
    counts = {};
  }
  metrics_.Count(Protocol::kHttp, response.code, std::chrono::steady_clock::now() - begin, counts);
}

void Service::AppendMetrics(http::Response& response) {
  response.type = "text/plain; version=0.0.4";
  metrics_.Append(response.body);
  AppendType("millrace_serve_connections", "open connections", "gauge", response.body);
  response.body += "millrace_serve_connections " + std::to_string(server_->connections()) + "\n";
  AppendType("millrace_serve_connections_cut_total",
             "connections that were closed because of limits of time, number or size", "counter",
             response.body);
  response.body +=
      "millrace_serve_connections_cut_total " + std::to_string(server_->closed_early()) + "\n";
  const Status status = follower_.AppendMetrics(response.body);
  if (!status.ok()) SetError(500, status.message(), response);
}

}  // namespace millrace::serve
