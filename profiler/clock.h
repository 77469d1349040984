// SPDX-License-Identifier: Apache-2.0
// The steady clock. Its origin differs between hosts.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace {

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double NowSeconds() { return static_cast<double>(NowNs()) * 1e-9; }

}  // namespace millrace
