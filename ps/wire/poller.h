// Waiting for bytes without going to sleep, where that pays.
//
// To be woken on another core takes some 25 us on a virtual machine, as long as half an exchange.
// A waiter that has a core to itself looks for its bytes again and again instead, for a while. One
// whose core others want must not: each round offers the core to whoever waits for it, and if
// somebody took it, or nothing came in time, the next waits sleep at once, more of them each time.
#pragma once

#include <cstdint>

namespace millrace::ps {

// For one socket. Not thread-safe.
class Poller {
 public:
  // Returns when the socket has bytes or its end has come, or when it is better to sleep.
  void Await(int socket);
  // How many of the next waits will sleep at once.
  uint32_t skips() const { return skip_; }

 private:
  enum class End { kAtOnce, kInTime, kInVain };
  static End Look(int socket);

  uint32_t skip_ = 0;       // waits that do not look
  uint32_t next_skip_ = 0;  // after the next look in vain
};

}  // namespace millrace::ps
