// SPDX-License-Identifier: Apache-2.0
// Where a server listens, and the files of mutual TLS.
#pragma once

#include <string>
#include <string_view>

#include "io/base/status.h"

namespace millrace::ps {

struct HostPort {
  std::string host;
  int port = 0;
};
// "host:port" or "[v6]:port".
Result<HostPort> ParseHostPort(std::string_view text);

// Whether only processes of this host can reach that address: 127.0.0.0/8, ::1 or localhost. Other
// names are not looked up.
bool IsLoopback(const std::string& host);

// PEM files. All or none: each side shows a certificate and checks the other's against `ca`.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;

  bool enabled() const { return !cert.empty(); }
  Status Validate() const;
};

}  // namespace millrace::ps
