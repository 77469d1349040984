// SPDX-License-Identifier: Apache-2.0
// A worker's membership in a job: join, start, checkpoint, stop, statistics. RemoteStore and
// RemoteDenseStore move the numbers over its connections.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/state/manifest.h"
#include "ps/job_config.h"
#include "ps/sharding.h"
#include "ps/wire/messages.h"
#include "ps/worker/shard_client.h"
#include "ps/worker/thrift_transport.h"
#include "ps/worker/transport.h"

namespace millrace::ps {

struct SessionOptions {
  ThriftOptions thrift = {};  // the servers
  JobConfig config = {};      // the same for all workers
  uint64_t worker = 0;        // 0: the chief
  std::string token = {};
  std::string name = {};  // of this process, for messages
  bool rejoin = false;    // this worker was part of the job before
  // For the chief: the folder of the run's manifest (io/state/manifest.h); empty: no checkpoints.
  std::string checkpoints = {};
  WaitOptions wait = {};

  Status Validate() const;
};

// Errors: kFailed if the job has failed (the message says why); kIo if a server is gone; kCancelled
// if the caller asked to stop while waiting. Not thread-safe, except where it says so.
class JobSession {
  struct Private {};  // only Join makes sessions

 public:
  // Joins the job on all servers.
  static Result<std::unique_ptr<JobSession>> Join(SessionOptions options);
  // The same over a given transport. `transport` and `clock` outlive the session.
  static Result<std::unique_ptr<JobSession>> Join(SessionOptions options, Transport& transport,
                                                  Clock& clock);
  JobSession(Private, SessionOptions options, std::unique_ptr<Transport> owned,
             Transport* transport, Clock* clock);
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  const JobConfig& config() const { return options_.config; }
  uint64_t worker() const { return options_.worker; }
  bool chief() const { return options_.worker == 0; }
  size_t shards() const { return clients_.size(); }
  const Sharding& sharding() const { return sharding_; }
  // Every step has a push of every worker.
  bool steps_together() const {
    return config().mode == Mode::kSync && config().replicas_to_aggregate == 0;
  }

  // Before Start, for the chief. Restores the newest intact checkpoint of the manifest, which any
  // number of servers and workers may have written, and returns what it says of the workers; none
  // if the run has never completed a checkpoint. kInvalid if the run has progress that this job
  // cannot use. If the number of workers differs, PlaceWorkers must follow.
  Result<std::optional<RestoredReply>> RestoreLatest();
  Status PlaceWorkers(const std::vector<std::string>& states);
  // Before Start, for the chief: model, optimizer state and counts of an earlier run.
  Status ContinueFrom(const sparse::CheckpointParts& earlier);
  // Keys ascend. `factors`: [keys][factor width], or none: those of features that were never seen.
  Status LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights,
                     std::span<const float> factors = {});

  // Where this worker resumes: the pushes that all shards have received, and the state that the
  // last of them brought.
  struct ResumePoint {
    uint64_t sequence = 0;
    std::string state;
  };
  // Waits until all workers have joined and the chief has called it. From then on the run's folders
  // belong to this job.
  Result<ResumePoint> Start();

  // For the chief: ends the training of all workers. A push that arrives later does not count, nor
  // does an incomplete step. `flush` receives the replies that the store waits for; it is not
  // called if a store gave up on them.
  Status Stop(const std::function<Status()>& flush);
  // This worker sends no more pushes. The store is flushed. For the chief a server that is gone is
  // an error; another worker has done its part, and if the job fails, the chief says so.
  Status Finish();
  // Waits until all workers have finished, the job has trained on `until_examples`, or some time
  // has passed. False when all have finished.
  static constexpr uint64_t kNoLimit = INT64_MAX;
  Result<bool> WaitForProgress(uint64_t until_examples);
  // Waits until all workers have finished.
  Status WaitAllFinished();
  // The last call. A server that is gone is no error any more: this worker has finished.
  Status Leave();

  // For the chief, with the store flushed, before Checkpoint. In the modes in which workers do not
  // step together it stops their pushes, at the same ones on all shards, and brings progress() up
  // to date; the pushes go on when each shard has written the checkpoint. It waits for pushes that
  // only some shards have received, but not forever for a worker that is suspended or lost.
  Status HoldPushes();
  // For the chief, with the store flushed: all shards write a checkpoint with that number, and then
  // the manifest names it. In sync mode it holds the state after the last step; in the other modes
  // that of HoldPushes.
  // kFailed if it cannot be written, or if a step is complete on some shards only.
  Status Checkpoint(uint64_t id, const std::string& chief_state);
  // Calls visit(key, weight, factors) for all features with a weight or factor that is not zero, in
  // the order of keys. `factors` is empty if all are zero; it is valid during the call.
  using VisitFeature =
      std::function<void(uint64_t key, float weight, std::span<const float> factors)>;
  Status ReadModel(const VisitFeature& visit);
  // By shard.
  Result<std::vector<StatsReply>> Stats();
  // Add it to this process's steady clock to get that of shard 0.
  int64_t clock_offset_ns() const { return clock_offset_ns_; }

  // The whole job's progress, as the last reply reported it.
  const JobProgress& progress() const { return progress_; }
  // The step of a shard, as its last reply reported it.
  uint64_t shard_step(size_t shard) const { return shard_steps_[shard]; }
  // The chief has ended the training.
  bool stopped() const { return stopped_; }
  // No other worker will push again.
  bool others_finished() const { return others_finished_; }
  // The number of this worker's last push.
  uint64_t sequence() const { return sequence_; }

  // For stores. Different shards may be called by different threads at the same time.
  ShardClient& client(size_t shard) { return clients_[shard]; }
  const ShardClient& client(size_t shard) const { return clients_[shard]; }
  uint64_t NextSequence() { return ++sequence_; }
  // Applies what a reply says about the job.
  void Apply(size_t shard, const ExchangeReply& reply);

  // The caller was asked to stop some seconds ago: the step under way has had its time.
  // Thread-safe.
  bool ShouldGiveUp() { return stop_grace_.over(); }
  // A store gave up on the step under way, because another worker is stopped. Only Stop and the
  // calls that follow it are possible then.
  bool gave_up() const { return gave_up_; }
  void SetGaveUp() { gave_up_ = true; }

 private:
  Status JoinAll();
  Status CallAll(const std::function<Status(size_t shard, Channel&)>& call);
  // The same, where a server that is gone is no error.
  Status CallAllThatRemain(const std::function<Status(size_t shard, Channel&)>& call);
  // The epoch of this job, and the checkpoints that it may take.
  Status ReadEpoch();
  Status ClaimFolder();
  Status CheckUsable() const;
  Status CheckSaved(uint64_t checkpoint) const;
  Status Restore(const RestoreRequest& request);
  Result<RestoredReply> ReadRestored();
  // Whether HoldPushes has an effect.
  bool holds_pushes() const { return config().mode != Mode::kSync && !config().dense; }
  Status ReleasePushes();
  Status CheckSameStep() const;
  Status NotePartialPushes();
  void MeasureClock();
  void Note(const std::string& message) const;
  // Reports `blocked_on` once in a while; kCancelled when the caller should stop.
  Status KeepWaiting(const std::string& blocked_on, const char* to_do, int64_t& note_ns);

  SessionOptions options_;
  std::unique_ptr<Transport> owned_transport_;
  RealClock real_clock_;
  Transport& transport_;
  Clock& clock_;
  Sharding sharding_;
  StopGrace stop_grace_;
  JoinRequest join_;
  io::Manifest manifest_;  // the chief's, as it was before this job
  std::deque<ShardClient> clients_;
  std::vector<std::vector<uint64_t>> checkpoints_;  // that each shard has, newest first
  bool restored_ = false;
  std::optional<io::FolderClaim> claim_;  // the chief's
  int64_t clock_offset_ns_ = 0;

  uint64_t sequence_ = 0;
  JobProgress progress_;
  std::vector<uint64_t> shard_steps_;
  bool stopped_ = false;
  bool others_finished_ = false;
  bool gave_up_ = false;
};

}  // namespace millrace::ps
