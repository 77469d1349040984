// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/thread_team.h"

#include <algorithm>
#include <string>

#include "profiler/trace.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace millrace::convnets {
namespace {

constexpr int kSpins = 2000;
constexpr size_t kSmall = 8192;  // elements that are not worth waking threads for

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Returns when `value` differs from `old`.
void WaitForChange(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(size_t threads) {
  for (size_t t = 1; t < threads; ++t) members_.emplace_back([this, t] { Serve(t); });
}

ThreadTeam::~ThreadTeam() {
  ending_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void ThreadTeam::Serve(size_t thread) {
  profiler::NameThread("compute " + std::to_string(thread));
  for (uint32_t round = 0;;) {
    WaitForChange(round_, round);
    ++round;
    if (ending_.load(std::memory_order_relaxed)) return;
    (*work_)(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void ThreadTeam::Run(const std::function<void(size_t)>& work) {
  if (members_.empty()) return work(0);
  work_ = &work;
  busy_.store(static_cast<uint32_t>(members_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;) {
    WaitForChange(busy_, left);
  }
}

void ThreadTeam::ParallelFor(size_t size, const std::function<void(size_t, size_t)>& work) {
  if (size <= kSmall || members_.empty()) return work(0, size);
  Run([&](size_t thread) {
    work(size * thread / this->size(), size * (thread + 1) / this->size());
  });
}

}  // namespace millrace::convnets
