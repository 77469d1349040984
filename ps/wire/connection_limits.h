// How much a connection may ask of a server.
#pragma once

namespace millrace::ps {

struct ConnectionLimits {
  int idle_ms = 0;         // between two messages; 0: no limit
  int message_ms = 30000;  // from a message's first byte to its last
  int max_string = 64 << 20;
};

// From a stranger, until it has shown the job's token.
constexpr int kStrangerString = 64 << 10;

}  // namespace millrace::ps
