// SPDX-License-Identifier: Apache-2.0
// A shard that the threads of a server's connections share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "ps/server/shard_access.h"

namespace millrace::ps {

class SharedShard final : public ShardAccess {
 public:
  // `call_time`: a call that waits longer replies that it is blocked.
  SharedShard(ShardOptions options, std::chrono::milliseconds call_time)
      : call_time_(call_time), shard_(std::move(options)) {}

  void lock() override { mu_.lock(); }
  void unlock() override { mu_.unlock(); }
  Shard& shard() override {
    CHECK(!busy_);
    return shard_;
  }
  int64_t NowNs() override;
  bool busy() const override { return busy_; }
  bool shutting_down() const override { return shutting_down_; }
  bool WaitUntilFree() override;
  bool WaitUntil(const std::function<bool()>& ready) override { return WaitFor(call_time_, ready); }
  void NotifyAll() override { changed_.notify_all(); }
  std::optional<Status> RunLong(uint64_t id, std::function<Status(Shard&)> work) override;

  // Needs the lock. WaitUntil with another time limit.
  bool WaitFor(std::chrono::milliseconds limit, const std::function<bool()>& ready);
  // Takes the lock. From now on all waits end immediately, and the shard is never free.
  void Shutdown();

 private:
  void Wait(std::chrono::milliseconds limit, const std::function<bool()>& done);

  const std::chrono::milliseconds call_time_;
  std::mutex mu_;  // guards all below
  std::condition_variable changed_;
  Shard shard_;
  bool busy_ = false;
  bool shutting_down_ = false;

  // The checkpoint that is being written or restored.
  uint64_t work_id_ = 0;
  bool work_done_ = false;
  Status work_status_;
  std::jthread worker_;
};

}  // namespace millrace::ps
