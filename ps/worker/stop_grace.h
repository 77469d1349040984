// The time that a step under way still gets when the caller was asked to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "ps/worker/clock.h"

namespace millrace::ps {

// Begins when `should_stop` is first seen to be true. Thread-safe where `should_stop` and the clock
// are.
class StopGrace {
 public:
  // The chief is the first to give up, within less time than servers give to a worker that is
  // lost, and ends the job for all.
  StopGrace(Clock& clock, size_t worker, std::function<bool()> should_stop)
      : clock_(clock),
        grace_ns_((worker == 0 ? 1 : 4) * kChiefNs),
        should_stop_(std::move(should_stop)) {}

  bool over() {
    if (!should_stop_ || !should_stop_()) return false;
    int64_t asked_ns = 0;
    const int64_t now_ns = clock_.NowNs();
    if (asked_ns_.compare_exchange_strong(asked_ns, now_ns)) return false;
    return now_ns - asked_ns > grace_ns_;
  }

 private:
  static constexpr int64_t kChiefNs = int64_t{2500} * 1000000;

  Clock& clock_;
  int64_t grace_ns_;
  std::function<bool()> should_stop_;
  std::atomic<int64_t> asked_ns_ = 0;  // 0: not yet
};

}  // namespace millrace::ps
