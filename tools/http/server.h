// SPDX-License-Identifier: Apache-2.0
// A server for HTTP/1.1 and, on the same port, for messages that are framed by their length (framed
// Thrift): a connection whose first byte is 0 carries frames. Boost.Beast parses HTTP.
//
// Connections, the sizes of requests and pending responses, and the times to send a request and to
// receive a response are bounded. A request that breaks a limit or the protocol gets a response
// that says so, and its connection is closed; others are not affected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::http {

struct Request {
  std::string_view method;              // "GET"
  std::string_view path;                // without its query
  std::string_view authorization = {};  // the header; empty if there is none
  std::string body = {};                // the handler may take it
};

struct Response {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  // Content-Security-Policy
  std::string policy = "default-src 'none'; frame-ancestors 'none'";
  std::string body = {};
};

// Called in the threads of the server, any number of times at once, except for the requests of one
// connection.
using Handler = std::function<void(Request& request, Response& response)>;

// One connection with frames: 4 bytes of length, the most significant one first, and the message.
class FrameSession {
 public:
  virtual ~FrameSession() = default;
  // A longer message closes the connection, and so does one of more than Limits::body_bytes.
  virtual size_t max_message() const { return SIZE_MAX; }
  // Appends the reply, with its length, to `out`. False: the connection is closed behind it.
  virtual bool Handle(std::string_view message, std::string& out) = 0;
};

struct Limits {
  size_t connections = 32;  // one more closes the one that has completed no request for longest
  size_t head_bytes = 8192;
  size_t body_bytes = 0;
  // Of all responses together; more closes the oldest connections.
  size_t pending_bytes = 256 << 20;
  int request_ms = 5000;    // from the first byte of a request to its last, or of the connection
  int response_ms = 20000;  // until the client has received the response
  int idle_ms = 0;          // between two requests; 0: a connection has one request
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or localhost
  uint16_t port = 0;               // 0: any free one
  int threads = 1;
  const char* thread_name = "http";
  // Serves only requests whose Host header names this host, so that a page of another site cannot
  // read responses by DNS rebinding.
  bool only_local_names = true;
  // Errors are JSON, {"error": "..."}, and there are no headers for browsers.
  bool for_programs = false;
  // Called before the body is read: 0, or the code of an error. `body` is empty. May be null.
  std::function<int(const Request& request)> check_head = {};
  Limits limits = {};
  // PEM files of mutual TLS; empty: no TLS.
  std::string tls_cert = {}, tls_key = {}, tls_ca = {};
  // Null: frames are refused.
  std::function<std::unique_ptr<FrameSession>()> frames = {};
};

class Server {
  struct Private {};  // only Start creates servers
  class Impl;

 public:
  // Accepts connections on return.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Handler handler);
  Server(Private, std::unique_ptr<Impl> impl);
  ~Server();  // closes all connections at once
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  size_t connections() const;  // that are open now
  // Since the start: connections that were closed, because of the limits, before a response.
  uint64_t closed_early() const;

  // Accepts no more connections, completes the requests that have begun, and closes each connection
  // behind its next response. Returns when all are closed, or after `timeout_ms`. A connection that
  // stays idle is closed after a second.
  void Drain(int timeout_ms);

 private:
  std::unique_ptr<Impl> impl_;
};

// Whether `given` is "Bearer TOKEN" with this token. Takes the same time wherever they differ.
bool IsBearer(std::string_view given, std::string_view token);

}  // namespace millrace::http
