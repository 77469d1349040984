// The server of one shard: Thrift over TCP, a thread for each connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/base/status.h"
#include "ps/server/shard.h"
#include "ps/wire/tls_files.h"

namespace millrace::ps {

struct ServerOptions {
  ShardOptions shard;
  std::string host = "127.0.0.1";
  int port = 0;       // 0: a free one
  std::string token;  // who does not know it is refused; empty: everybody may join
  TlsFiles tls = {};
  int stranger_ms = 5000;  // that a connection has to show the token
  bool poll = true;        // for workers' calls, where a core is free: see wire/poller.h
  int wait_ms = 1000;      // a call that would wait longer for others is answered with "waiting"

  Status Validate() const;
};

// Thread-safe.
class Server {
  struct Private {};  // only Start makes servers

 public:
  // Accepts connections on return.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options);
  explicit Server(Private, ServerOptions options);
  ~Server();  // closes all connections
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& host() const;
  int port() const;

  // Waits until training begins; false if one of the ends below comes first.
  bool WaitBegun(const std::function<bool()>& should_stop);
  // Waits until all workers have left (ok), the job has failed, or `should_stop`, asked some times
  // a second, says so (kCancelled).
  Status Wait(const std::function<bool()>& should_stop);

  struct Summary {
    uint64_t steps = 0, examples = 0;
    uint64_t messages = 0, bytes_in = 0, bytes_out = 0;
    uint64_t refused = 0;  // connections that were closed for what they sent, or did not send
  };
  Summary summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::ps
