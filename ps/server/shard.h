// One shard of the model and of the job: a state machine that knows no threads, sockets or clocks.
// Whoever drives it (the server, or a simulation) passes the time in, calls Take when a push
// arrives, asks MayAnswer until it says yes, and then calls Answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/job_progress.h"
#include "ps/server/dense_table.h"
#include "ps/server/gradient_sum.h"
#include "ps/server/straggler_watch.h"
#include "ps/server/worker_record.h"
#include "ps/sharding.h"
#include "sparse/local_store.h"

namespace millrace::ps {

struct ShardOptions {
  size_t shard = 0;
  size_t num_shards = 1;
  size_t num_workers = 1;
  std::string checkpoints = {};                 // folder; empty: none can be written
  int64_t rejoin_ns = int64_t{4} * 1000000000;  // sync: a lost worker is waited for so long
  std::function<void(const std::string&)> on_note = nullptr;
};

// Not thread-safe. Errors are kInvalid for what the caller may not do, kCorrupt for what cannot be
// understood; both change nothing.
class Shard {
 public:
  explicit Shard(ShardOptions options);

  // The first one makes the model. Returns the generation that the worker's calls must carry.
  // `again`: the worker knows that it was here before, and takes its place over from its former
  // connection. So does the same process by a later `attempt`.
  Result<uint64_t> Join(size_t worker, const std::string& name, const std::string& config,
                        bool again, const JoinAttempt& attempt = {});
  // The chief (worker 0) has the model as it should be.
  Status Open(size_t worker);
  // Empty when training may begin (all have joined, the chief has opened), else for whom it waits.
  std::string StartWaitsFor() const;

  Status CheckCaller(size_t worker, uint64_t generation) const;
  // The failure of the whole job, if any.
  const Status& failed() const { return failed_; }

  // A list that the worker has pulled before; null if it is not known (any more).
  SharedKeys FindList(size_t worker, uint64_t signature) const;
  void KeepList(size_t worker, SharedKeys list);
  // Local keys are below it; 0: any.
  uint64_t local_features() const { return sharding_->local_features(); }

  // Takes a push in, if its sequence is new: applies it, or keeps it until its step is complete.
  Status Take(size_t worker, Push push, int64_t now_ns);
  // Whether that worker alone makes the steps, so that it helps to look ahead.
  bool StepsAlone(size_t worker) const;
  // The worker has had its answer and will probably pull `list` next (null: unknown). Does what was
  // left for after the answer, and what can be done before the next one.
  Status LookAhead(size_t worker, SharedKeys list);
  // Applies what was left for after the answer. Before anybody looks into the store.
  void Settle();
  // Whether the answer to that sequence is due.
  bool MayAnswer(size_t worker, uint64_t sequence) const;
  // For whom the answer waits, in words.
  std::string AnswerWaitsFor(size_t worker) const;
  // The weights of the list, and the step that they are of. `remember`: a repeated call will get
  // the same.
  struct Weights {
    uint64_t step = 0;
    SharedNumbers numbers;  // nobody changes them while they are held
  };
  Result<Weights> Answer(size_t worker, uint64_t sequence, const SharedKeys& list, bool remember);

  // Dense blocks; a job has them or a sparse model. The chief's weights are those to begin with.
  Status InitDense(size_t worker, size_t block, std::span<const float> weights);
  Status PushDense(size_t block, const DenseTable::Gradient& gradient);
  // Whether the block is there and has (or has dropped) the worker's pushes up to that sequence.
  bool DenseReady(size_t worker, size_t block, uint64_t sequence) const;
  const std::optional<DenseTable>& dense() const { return dense_; }

  // The chief ends the training: pushes that wait are dropped, and later ones do not count.
  Status Stop(size_t worker);
  bool stopped() const { return stopped_; }
  void Finish(size_t worker, int64_t now_ns);
  void Leave(size_t worker, int64_t now_ns);
  void Disconnected(size_t worker, uint64_t generation, int64_t now_ns);
  // Notices workers that have been lost for too long to be waited for.
  void Tick(int64_t now_ns);
  // No other worker will push any more.
  bool IsAlone(size_t worker) const;
  // The chief has heard that no worker will push any more: who was given up stays away.
  void EndJoins() { drained_ = true; }
  // Empty when no worker will push any more, else who still may.
  std::string DrainWaitsFor() const;
  // All that ever joined have left (or are lost), and there was at least one.
  bool done() const;

  // Checkpoints, see shard_file.h. `id` is the chief's number for it, the same on all shards.
  Status Save(uint64_t id, const std::string& chief_state);
  Status Restore(uint64_t id);
  std::vector<uint64_t> SavedCheckpoints() const;
  const std::string& chief_state() const { return chief_state_; }

  const JobProgress& progress() const { return progress_; }
  const WorkerRecord& worker(size_t i) const { return workers_[i]; }
  const ShardOptions& options() const { return options_; }
  const JobConfig& config() const { return *config_; }
  // Needs a model: after the first Join. A push may be missing that is in the answers: see Settle.
  sparse::LocalStore& store() { return *store_; }
  const sparse::LocalStore& store() const { return *store_; }
  bool joined() const { return config_.has_value(); }
  // Who came last into the last step; -1 before the first.
  int last_worker() const { return stragglers_.last_worker(); }
  uint64_t keys_pushed() const { return keys_pushed_; }
  uint64_t keys_pulled() const { return keys_pulled_; }
  // Answers that were given before the store had the push.
  uint64_t answered_ahead() const { return answered_ahead_; }

 private:
  friend class ShardFile;

  Status MakeModel(const std::string& config);
  // Whether the worker may (still, or again) be part of the job.
  Status CheckJoin(size_t worker, const std::string& name, bool again,
                   const JoinAttempt& attempt) const;
  bool Active(const WorkerRecord& worker) const;
  bool MayPush(const WorkerRecord& worker) const;
  StepQuorum Quorum() const;
  uint64_t SlowestActive() const;
  void TryStep(int64_t now_ns);
  void ApplyPending(int64_t now_ns);
  void MakeStep(int64_t now_ns);
  Status StepAlone(WorkerRecord& worker);
  // Of the summed loss to what the rule takes.
  void Scale(std::span<float> gradient, double weight) const;
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
  bool drained_ = false;
  JobProgress progress_;
  std::string chief_state_;  // of the checkpoint that was restored
  Status failed_;
  GradientSum sum_;
  // A push that counts, and that the worker's answer shows; the store gets it before anybody looks.
  struct LatePush {
    SharedKeys list;
    PodVector<float> gradient;
  };
  std::optional<LatePush> late_;
  StragglerWatch stragglers_;
  uint64_t keys_pushed_ = 0, keys_pulled_ = 0, answered_ahead_ = 0;
};

}  // namespace millrace::ps
