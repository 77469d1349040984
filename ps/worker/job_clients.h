// A worker's talks with all servers of its job, and what it asks of one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/sharding.h"
#include "ps/worker/channel.h"
#include "ps/worker/clock.h"
#include "ps/worker/shard_client.h"

namespace millrace::ps {

// Not thread-safe, but different shards may be called by different threads at the same time.
// Errors are those of RemoteStore.
class JobClients {
 public:
  // `transport` and `clock` outlive it.
  JobClients(Transport& transport, Clock& clock, const Sharding& sharding, ClientOptions options);

  size_t size() const { return clients_.size(); }
  ShardClient& operator[](size_t shard) { return clients_[shard]; }
  const ShardClient& operator[](size_t shard) const { return clients_[shard]; }

  // Joins the job on all shards.
  Status Join();
  // Then: checkpoints that all shards have, newest first; and what is to be added to this process's
  // steady clock to get that of shard 0.
  const std::vector<uint64_t>& checkpoints() const { return checkpoints_; }
  int64_t clock_offset_ns() const { return clock_offset_ns_; }

  Status CallAll(const std::function<Status(size_t shard, Channel&)>& call);
  Status Restore(uint64_t checkpoint);
  Result<std::string> ChiefState();
  Status LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights);
  // Waits until all workers have joined and the chief has called it; the answer of the shard that
  // has the fewest of this worker's pushes.
  Result<StartReply> Start();
  // Waits until no worker pushes any more.
  Status WaitDrained();
  Status Checkpoint(uint64_t id, const std::string& chief_state);
  Status ReadModel(const std::function<void(uint64_t key, float weight)>& visit);
  // Shard by shard.
  Result<std::vector<StatsReply>> Stats();

 private:
  void MeasureClock();
  // Tells of `waiting` (nobody, if empty) once in a while; kCancelled when the caller should stop.
  Status KeepWaiting(const std::string& waiting, const char* for_what, int64_t& note_ns);

  Clock& clock_;
  Sharding sharding_;
  ClientOptions options_;
  std::vector<ShardClient> clients_;
  std::vector<uint64_t> checkpoints_;
  int64_t clock_offset_ns_ = 0;
};

}  // namespace millrace::ps
