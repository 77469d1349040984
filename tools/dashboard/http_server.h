// A small HTTP server for people and programs on the same host: GET, one answer a connection.
//
// It listens on the loopback alone, answers only requests that name the host as such (a page from
// elsewhere must not read it through a renamed host), and bounds everything: connections, the size
// of a request, the time to send one and to take the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "io/base/status.h"

namespace millrace::dashboard {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpLimits {
  size_t connections = 32;  // one more makes the oldest one go
  size_t request_bytes = 8192;
  int request_ms = 5000;
  int answer_ms = 20000;
};

class HttpServer {
  struct Private {};  // only Start makes servers

 public:
  // Gets the path without its query; called in the server's thread, one request after the other.
  using Handler = std::function<HttpAnswer(const std::string& path)>;

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
  const int wake_;  // an eventfd that ends the waiting
  const uint16_t port_;
  const Handler handler_;
  const HttpLimits limits_;
  std::jthread thread_;  // last: it stops before the rest goes
};

}  // namespace millrace::dashboard
