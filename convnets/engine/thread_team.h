// SPDX-License-Identifier: Apache-2.0
// A fixed team of threads for fork-join work, many thousand times a second.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace millrace::convnets {

// An idle member spins for some ten microseconds, because the next step of a small net starts that
// soon, and then sleeps. Not thread-safe.
class ThreadTeam {
 public:
  explicit ThreadTeam(size_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  size_t size() const { return members_.size() + 1; }
  // Calls work(0) on this thread and work(1), ..., work(size() - 1) on the members; returns when
  // all have returned.
  void Run(const std::function<void(size_t thread)>& work);
  // Calls work for one part of [0, size) per thread; a small range stays on this thread.
  void ParallelFor(size_t size, const std::function<void(size_t begin, size_t end)>& work);

 private:
  void Serve(size_t thread);

  const std::function<void(size_t)>* work_ = nullptr;  // published by round_
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> busy_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> members_;
};

}  // namespace millrace::convnets
