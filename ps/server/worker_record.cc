// SPDX-License-Identifier: Apache-2.0
#include "ps/server/worker_record.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace millrace::ps {
namespace {

// A worker is called slow when the others waited for it for most of such an interval.
constexpr int64_t kIntervalNs = int64_t{10} * 1000000000;
constexpr double kSlowShare = 0.5;

}  // namespace

void StragglerWatch::CountLast(std::span<WorkerRecord> workers) {
  int64_t last_ns = 0, before_ns = 0;
  for (size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].pending) continue;
    const int64_t at = workers[i].arrived_ns;
    if (at >= last_ns) {
      before_ns = std::exchange(last_ns, at);
      last_worker_ = static_cast<int>(i);
    } else {
      before_ns = std::max(before_ns, at);
    }
  }
  if (before_ns > 0) workers[static_cast<size_t>(last_worker_)].waited_ns += last_ns - before_ns;
}

void StragglerWatch::CountStep(std::span<WorkerRecord> workers, int64_t now_ns, const Note& note) {
  CountLast(workers);
  if (since_ns_ == 0) since_ns_ = now_ns;
  const int64_t interval_ns = now_ns - since_ns_;
  if (interval_ns < kIntervalNs) return;
  for (size_t i = 0; i < workers.size(); ++i) {
    const int64_t waited_ns =
        workers[i].waited_ns - std::exchange(waited_before_[i], workers[i].waited_ns);
    if (static_cast<double>(waited_ns) < kSlowShare * static_cast<double>(interval_ns)) continue;
    char text[80];
    std::snprintf(text, sizeof text, "is slow: the others waited for it %.1f of the last %.1f s",
                  static_cast<double>(waited_ns) * 1e-9, static_cast<double>(interval_ns) * 1e-9);
    note(i, text);
  }
  since_ns_ = now_ns;
}

}  // namespace millrace::ps
