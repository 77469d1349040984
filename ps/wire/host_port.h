// Where a server listens.
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

}  // namespace millrace::ps
