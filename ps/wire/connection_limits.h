// How much a connection may ask of a server.
#pragma once

#include <cstddef>

namespace millrace::ps {

struct ConnectionLimits {
  int idle_ms = 0;         // between two messages; 0: no limit
  int message_ms = 30000;  // from a message's first byte to its last
  int max_string = 64 << 20;
  // Of a whole message: an exchange's gradient and three lists of keys.
  size_t max_message = 4 * (size_t{64} << 20) + (1 << 20);
};

// From a stranger, until it has shown the job's token.
constexpr int kStrangerString = 64 << 10;
constexpr size_t kStrangerMessage = 256 << 10;

}  // namespace millrace::ps
