// SPDX-License-Identifier: Apache-2.0
// What the daemon counts, for Prometheus. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "millrace/score.h"

namespace millrace::serve {

enum class Protocol { kHttp, kThrift };

class Metrics {
 public:
  // A request to score. `code`: of HTTP; a Thrift call has 200, 400 or 500 as well.
  void Count(Protocol protocol, int code, std::chrono::nanoseconds time,
             const millrace_score_counts& counts);
  void CountSwap() { swaps_.fetch_add(1, std::memory_order_relaxed); }
  void CountRefused() { refused_.fetch_add(1, std::memory_order_relaxed); }

  // Appends the text format of Prometheus.
  void Append(std::string& out) const;

 private:
  using Counter = std::atomic<uint64_t>;
  // Upper bounds of the latency histogram in seconds; the last bucket has none.
  static constexpr std::array kBounds = {2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
                                         5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1.0};
  static constexpr std::array kCodes = {200, 400, 401, 500};

  struct PerProtocol {
    std::array<Counter, kCodes.size()> codes = {};
    std::array<Counter, kBounds.size() + 1> buckets = {};
    Counter nanoseconds = 0;
  };
  std::array<PerProtocol, 2> protocols_;
  Counter rows_ = 0, keys_ = 0, unknown_keys_ = 0;
  Counter swaps_ = 0, refused_ = 0;
};

// "# HELP name help\n# TYPE name type\n"
void AppendType(const char* name, const char* help, const char* type, std::string& out);

}  // namespace millrace::serve
