// SPDX-License-Identifier: Apache-2.0
// The world outside a worker, passed in so that tests can make their own: connections and time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "io/base/status.h"
#include "profiler/clock.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() = 0;  // steady
  // Before a retry.
  virtual void Pause(int64_t ns) = 0;
};

class RealClock final : public Clock {
 public:
  int64_t NowNs() override { return millrace::NowNs(); }
  void Pause(int64_t ns) override { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
};

// A worker's connection to one shard. One call at a time. Errors: kIo if the connection is broken
// or a deadline has passed, kCorrupt if a reply has a wrong checksum (the server may or may not
// have received the call: it can be made again on a new connection), kFailed if the job has failed
// or the server could not do its work, kInvalid if the server refuses, kBusy if it asks for the
// same call again. Not thread-safe.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual Status Join(const JoinRequest& request, JoinReply& reply) = 0;
  virtual Status Start(bool open, StartReply& reply) = 0;
  // An exchange in two halves, so that all shards work at the same time.
  virtual Status SendExchange(const ExchangeRequest& request) = 0;
  virtual Status ReceiveExchange(ExchangeReply& reply) = 0;
  virtual Status Stop() = 0;
  virtual Status Finish() = 0;
  virtual Status AllFinished(uint64_t until_examples, AllFinishedReply& reply) = 0;
  virtual Status Leave() = 0;
  virtual Status HoldPushes(const HoldRequest& request, HoldReply& reply) = 0;
  virtual Status Checkpoint(const CheckpointRequest& request, bool& done) = 0;
  virtual Status Restore(const RestoreRequest& request, bool& done) = 0;
  virtual Status Restored(RestoredReply& reply) = 0;
  virtual Status PlaceWorkers(const std::vector<std::string>& states) = 0;
  virtual Status Entries(int64_t first, EntriesReply& reply) = 0;
  virtual Status Load(const std::string& entries) = 0;
  virtual Status Stats(StatsReply& reply) = 0;
  virtual Status InitDense(const DenseRequest& request, DenseReply& reply) = 0;
  virtual Status PushDense(const DenseRequest& request, DenseReply& reply) = 0;
  virtual Status PullDense(const DenseRequest& request, DenseReply& reply) = 0;
  // Bytes on the wire since the channel was made.
  virtual uint64_t bytes_sent() const = 0;
  virtual uint64_t bytes_received() const = 0;
};

// Makes channels.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual size_t shards() const = 0;
  // For messages: "server 1 at host:port".
  virtual std::string Describe(size_t shard) const = 0;
  virtual Result<std::unique_ptr<Channel>> Connect(size_t shard) = 0;
};

}  // namespace millrace::ps
