// SPDX-License-Identifier: Apache-2.0
// The server of one shard: Thrift over TCP, one thread per connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/base/status.h"
#include "ps/server/shard.h"
#include "ps/wire/endpoint.h"

namespace millrace::ps {

struct ServerOptions {
  ShardOptions shard;  // `on_note` is called from a thread of its own, one note at a time
  std::string host = "127.0.0.1";
  int port = 0;                    // 0: a free one
  std::string token;               // peers without it are refused; empty: any peer may join
  bool insecure_no_token = false;  // allows an empty token on an address that other hosts can reach
  TlsFiles tls = {};
  int authenticate_ms = 5000;  // a peer that has not authenticated by then is disconnected
  int call_ms = 1000;          // a call that waits longer for other workers replies "blocked"

  Status Validate() const;
};

// Thread-safe.
class Server {
  struct Private {};  // only Start makes servers

 public:
  // Accepts connections on return.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  Server(Private, const ServerOptions& options);
  ~Server();  // closes all connections
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& host() const;
  int port() const;

  // Waits until training begins; false if the job ends first.
  bool WaitBegun(const std::function<bool()>& should_stop);
  // Waits until all workers have left (ok), the job has failed, or `should_stop`, which is polled a
  // few times a second, is true (kCancelled).
  Status Wait(const std::function<bool()>& should_stop);

  struct Summary {
    uint64_t steps = 0, examples = 0;
    uint64_t messages = 0, bytes_in = 0, bytes_out = 0;
    // Connections that were closed because of invalid messages, or of none in time.
    uint64_t refused = 0;
    uint64_t corrupt = 0;  // messages with a wrong CRC
  };
  Summary summary() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::ps
