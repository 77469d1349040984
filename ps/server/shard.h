// SPDX-License-Identifier: Apache-2.0
// One shard of the model and of the job: a deterministic state machine without threads, sockets or
// clocks. Its driver (ExchangeHandler, WorkerHandler) passes the time in, calls Receive when a push
// arrives, waits until ReplyDue, and then calls Gather.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/state/manifest.h"
#include "ps/job_config.h"
#include "ps/server/dense_table.h"
#include "ps/server/gradient_sum.h"
#include "ps/server/worker_record.h"
#include "ps/sharding.h"
#include "ps/wire/key_codec.h"
#include "ps/wire/messages.h"
#include "sparse/local_store.h"

namespace millrace::ps {

struct ShardOptions {
  size_t shard = 0;
  size_t num_shards = 1;
  size_t num_workers = 1;
  uint64_t instance = 1;         // of the server process: differs from all others of this shard
  std::string checkpoints = {};  // folder; empty: none can be written
  // Called every now and then while a checkpoint is written: tests make a slow disk of it.
  std::function<void()> while_saving = nullptr;
  int64_t rejoin_ns = int64_t{4} * 1000000000;  // sync: how long the job waits for a lost worker
  // Called by the shard, under the lock of its driver: it must not block.
  std::function<void(const std::string&)> on_note = nullptr;
};

// Not thread-safe. Errors are kInvalid if the caller may not do that, kCorrupt if the data is
// malformed; both leave the shard unchanged.
class Shard {
 public:
  explicit Shard(ShardOptions options);

  // Not empty: the worker is still connected by another process. A process that rejoins waits until
  // that connection ends: no process replaces a live one.
  std::string JoinBlockedOn(const JoinRequest& request) const;
  // The first worker's config creates the model. Returns the generation that the worker's calls
  // must carry. A later `attempt` of the same process replaces its former connection.
  Result<uint64_t> Join(const JoinRequest& request);
  // From the chief (worker 0): the model is ready. Claims the folder of checkpoints.
  Status Open(size_t worker);
  // Empty when training may begin (all workers have joined, the chief has opened the job).
  std::string StartBlockedOn() const;

  Status CheckCaller(size_t worker, uint64_t generation) const;
  // The failure of the whole job, if any.
  const Status& failed() const { return failed_; }

  // A list that the worker has pulled before; null if it is unknown.
  SharedKeys FindList(size_t worker, uint64_t signature) const;
  void KeepList(size_t worker, SharedKeys list);
  KeyBounds key_bounds() const {
    return {.limit = sharding_->local_features(), .intercept = store_->has_intercept()};
  }

  // A push has arrived. Ignores a sequence that was received before; otherwise applies the push, or
  // keeps it pending until its step is complete, or drops it if its step is complete already.
  Status Receive(size_t worker, Push push, int64_t now_ns);
  // Whether the reply to that sequence may be sent.
  bool ReplyDue(size_t worker, uint64_t sequence) const;
  // The workers that the reply is blocked on.
  std::string ReplyBlockedOn(size_t worker) const;
  // The numbers of the list (JobConfig::LayoutOf), and their step. A repeated call for a batch gets
  // the same ones.
  struct Weights {
    uint64_t step = 0;
    SharedNumbers numbers;  // do not change while they are held
  };
  Result<Weights> Gather(size_t worker, uint64_t sequence, const SharedKeys& list, PullOf what);

  // Dense blocks: a job has either these or a sparse model. The chief sends the initial weights.
  Status InitDense(size_t worker, size_t block, std::span<const float> weights);
  Status PushDense(size_t block, const DenseTable::Gradient& gradient);
  // Whether the block exists and the worker's pushes up to that sequence are applied or dropped.
  bool DenseReady(size_t worker, size_t block, uint64_t sequence) const;
  const std::optional<DenseTable>& dense() const { return dense_; }

  // The chief ends the training: pending pushes are dropped, and later ones do not count.
  Status Stop(size_t worker);
  bool stopped() const { return stopped_; }
  void Finish(size_t worker, int64_t now_ns);
  void Leave(size_t worker, int64_t now_ns);
  void Disconnected(size_t worker, uint64_t generation, int64_t now_ns);
  // Gives up on workers that have been lost for too long.
  void Tick(int64_t now_ns);
  // No other worker will push again.
  bool OthersFinished(size_t worker) const;
  // The workers that may still push; empty: all have finished.
  std::string UnfinishedWorkers() const;
  // The chief knows that all workers have finished: a worker that was given up cannot rejoin.
  void CloseJoins() { joins_closed_ = true; }
  // The chief has left, and all other workers have left or are lost.
  bool done() const;

  // Async and ssp: a push after those of `request` is held until Save, Stop or a request without
  // `hold`. So all shards of a checkpoint have applied the same pushes.
  Status HoldPushes(const HoldRequest& request, int64_t now_ns);
  // Receive must wait with that push. (A push that is out of order is not held, but refused.)
  bool IsHeld(size_t worker, uint64_t sequence) const;
  // The workers whose pushes have not all arrived. Empty after `rejoin_ns`: a worker that is
  // suspended or lost between its pushes to two shards does not block the job.
  std::string HoldBlockedOn(int64_t now_ns) const;

  // Checkpoints, see shard_file.h. The chief chooses `id`, the same on all shards.
  Status Save(const CheckpointRequest& request);
  Status Restore(const RestoreRequest& request);
  // Of the checkpoint that was restored.
  const RestoredReply& restored() const { return restored_; }
  // Where each worker starts, as the chief has divided the positions of a checkpoint that was
  // written by another number of workers.
  Status PlaceWorkers(const std::vector<std::string>& states);
  std::vector<uint64_t> SavedCheckpoints() const;

  const JobProgress& progress() const { return progress_; }
  const WorkerRecord& worker(size_t i) const { return workers_[i]; }
  const ShardOptions& options() const { return options_; }
  const JobConfig& config() const { return *config_; }
  // Valid after the first Join.
  sparse::LocalStore& store() { return *store_; }
  const sparse::LocalStore& store() const { return *store_; }
  bool joined() const { return config_.has_value(); }
  // The worker whose push completed the last step; -1 before the first.
  int last_worker() const { return stragglers_.last_worker(); }
  uint64_t keys_pushed() const { return keys_pushed_; }
  uint64_t keys_pulled() const { return keys_pulled_; }

 private:
  friend class ShardFile;

  Status MakeModel(const std::string& config);
  bool SameProcess(const JoinRequest& request) const;
  // Whether the worker may be part of the job, still or again.
  Status CheckJoin(const JoinRequest& request) const;
  bool Active(const WorkerRecord& worker) const;
  bool MayPush(const WorkerRecord& worker) const;
  StepQuorum Quorum() const;
  uint64_t SlowestActive() const;
  void TryStep(int64_t now_ns);
  void ApplyPending(int64_t now_ns);
  void MakeStep(int64_t now_ns);
  // Divides the gradient of the summed loss by the rows of the step where the rule wants it.
  void Scale(std::span<const uint64_t> keys, std::span<float> gradient, uint64_t rows) const;
  Status Apply(std::span<const uint64_t> keys, std::span<const float> gradient);
  void Count(WorkerRecord& worker, const Push& push);
  void Fail(const std::string& message);
  void Note(const std::string& message) const;
  std::string Describe(size_t worker) const;
  template <typename Which>
  std::string List(Which which) const;

  ShardOptions options_;
  std::optional<JobConfig> config_;
  std::optional<Sharding> sharding_;
  std::unique_ptr<sparse::LocalStore> store_;
  std::optional<DenseTable> dense_;
  std::vector<WorkerRecord> workers_;
  bool open_ = false;
  bool stopped_ = false;
  bool joins_closed_ = false;
  JobProgress progress_;
  struct Hold {
    int64_t since_ns = 0;
    std::vector<uint64_t> last_pushes;  // by worker, the last push that is accepted
  };
  std::optional<Hold> hold_;
  std::optional<uint64_t> saved_;  // the last checkpoint
  RestoredReply restored_;
  uint64_t epoch_ = 0;  // of the run, as the chief has it
  std::optional<io::FolderClaim> claim_;
  Status failed_;
  GradientSum sum_;
  StragglerWatch stragglers_;
  uint64_t keys_pushed_ = 0, keys_pulled_ = 0;
};

}  // namespace millrace::ps
