// SPDX-License-Identifier: Apache-2.0
// How the connections of a server share its shard, and how they wait for each other. The server
// implements it with a mutex and a condition, the simulation with turns.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "io/base/status.h"
#include "ps/server/shard.h"

namespace millrace::ps {

// In replies, while a checkpoint keeps the shard busy.
constexpr char kBlockedOnCheckpoint[] = "the server, which writes or reads a checkpoint";

// A std::unique_lock<ShardAccess> guards the shard. Every other call needs that lock; calls that
// wait release it meanwhile, and return after at most the time that one call may take.
class ShardAccess {
 public:
  virtual ~ShardAccess() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;

  // Only while the shard is free, and only until the lock is released.
  virtual Shard& shard() = 0;
  virtual int64_t NowNs() = 0;
  // A checkpoint is being written or restored without the lock: the shard must not be used.
  virtual bool busy() const = 0;
  // The server ends: closed connections are no failures any more.
  virtual bool shutting_down() const = 0;
  // False: still busy, or shutting down.
  virtual bool WaitUntilFree() = 0;
  // Returns when `ready` is true, the job has failed, or time is up. `ready` is called only while
  // the shard is free. False: the shard is not free.
  virtual bool WaitUntil(const std::function<bool()>& ready) = 0;
  virtual void NotifyAll() = 0;
  // Runs `work` without the lock while the shard is busy. Empty when it takes longer than one call
  // may: the next call with the same `id` waits for the same work.
  virtual std::optional<Status> RunLong(uint64_t id, std::function<Status(Shard&)> work) = 0;
};

using ShardLock = std::unique_lock<ShardAccess>;

}  // namespace millrace::ps
