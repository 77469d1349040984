// SPDX-License-Identifier: Apache-2.0
// Channels over TCP with Apache Thrift.
#pragma once

#include <memory>
#include <vector>

#include "io/base/status.h"
#include "ps/wire/endpoint.h"
#include "ps/worker/transport.h"

namespace millrace::ps {

struct ThriftOptions {
  std::vector<HostPort> servers;  // by shard
  TlsFiles tls = {};
  int connect_ms = 1000;
  // A server replies within a second, if only to say that it is blocked; large messages get more.
  int call_ms = 2500;
};

// Reads the TLS files; an error if one is not valid.
Result<std::unique_ptr<Transport>> MakeThriftTransport(ThriftOptions options);

}  // namespace millrace::ps
