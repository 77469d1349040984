// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for people and programs on the same host: GET, one response per connection.
//
// It listens on loopback only and serves only requests whose Host header names the local host, so
// that a page of another site cannot read it by DNS rebinding. Connections, the sizes of requests
// and responses, and the time to send a request and to receive the response are bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "io/base/status.h"

namespace millrace::dashboard {

struct HttpResponse {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string policy = "default-src 'none'; frame-ancestors 'none'";  // Content-Security-Policy
  std::string body;
};

struct HttpLimits {
  size_t connections = 32;  // one more closes the oldest one
  size_t request_bytes = 8192;
  size_t pending_bytes = 256 << 20;  // of all responses together; more closes the oldest one
  int request_ms = 5000;
  int response_ms = 20000;
};

class HttpServer {
  struct Private {};  // only Start creates servers

 public:
  // Receives the path without its query. Called in the server's thread, one request at a time.
  using Handler = std::function<HttpResponse(const std::string& path)>;

  // Port 0: any free one.
  static Result<std::unique_ptr<HttpServer>> Start(uint16_t port, Handler handler,
                                                   HttpLimits limits = {});
  HttpServer(Private, int listener, int wake, uint16_t port, Handler handler, HttpLimits limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return port_; }

 private:
  void Serve(const std::stop_token& stop);

  const int listener_;
  const int wake_;  // an eventfd that ends poll()
  const uint16_t port_;
  const Handler handler_;
  const HttpLimits limits_;
  std::jthread thread_;  // last member: it stops before the others are destroyed
};

}  // namespace millrace::dashboard
