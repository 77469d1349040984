// A worker's connection to one shard, whatever carries it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/base/status.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

struct DenseCall {
  uint32_t block = 0;
  uint64_t sequence = 0;
  uint64_t step = 0;
  uint32_t rows = 0;
  std::string_view values = {};
};
struct DenseReply {
  std::string waiting;
  std::string values;
  uint64_t step = 0;
};

// One call at a time. Errors: kIo when the connection is broken or a deadline has passed (the call
// may or may not have been heard: it can be made again on a new connection), kFailed when the job
// as a whole has failed or the server could not do its work, kInvalid when the server refuses. Not
// thread-safe.
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
  virtual Status Drained(std::string& waiting) = 0;
  virtual Status Leave() = 0;
  virtual Status Checkpoint(uint64_t id, const std::string& chief_state, bool& done) = 0;
  virtual Status Restore(uint64_t id, bool& done) = 0;
  virtual Status ChiefState(std::string& state) = 0;
  virtual Status Entries(int64_t first, EntriesReply& reply) = 0;
  virtual Status Load(const std::string& entries) = 0;
  virtual Status Stats(StatsReply& reply) = 0;
  virtual Status InitDense(const DenseCall& call) = 0;
  virtual Status PushDense(const DenseCall& call) = 0;
  virtual Status PullDense(const DenseCall& call, DenseReply& reply) = 0;
  // That went over the wire since the channel was made.
  virtual uint64_t bytes_sent() const = 0;
  virtual uint64_t bytes_received() const = 0;
};

// Makes channels.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual size_t shards() const = 0;
  // For messages: "shard 1 at host:port".
  virtual std::string Describe(size_t shard) const = 0;
  virtual Result<std::unique_ptr<Channel>> Connect(size_t shard) = 0;
};

}  // namespace millrace::ps
