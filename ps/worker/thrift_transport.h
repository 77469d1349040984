// Channels over TCP with Apache Thrift.
#pragma once

#include <memory>
#include <vector>

#include "io/base/status.h"
#include "ps/wire/host_port.h"
#include "ps/wire/tls_files.h"
#include "ps/worker/channel.h"

namespace millrace::ps {

struct ThriftOptions {
  std::vector<HostPort> servers;  // by shard
  TlsFiles tls = {};
  bool poll = true;  // for answers, where a core is free: see wire/poller.h
  int connect_ms = 1000;
  // A server answers within a second, if only to say that it waits; large messages get more.
  int call_ms = 2500;
};

// The options' TLS files are read; an error if they are not what they should be.
Result<std::unique_ptr<Transport>> MakeThriftTransport(ThriftOptions options);

}  // namespace millrace::ps
