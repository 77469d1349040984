// The model on the servers: what a worker's training loop pulls from and pushes to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "profiler/trace.h"
#include "ps/job_config.h"
#include "ps/job_progress.h"
#include "ps/sharding.h"
#include "ps/wire/float_codec.h"
#include "ps/worker/channel.h"
#include "ps/worker/clock.h"
#include "ps/worker/job_clients.h"
#include "ps/worker/key_split.h"
#include "ps/worker/outgoing_push.h"
#include "ps/worker/stop_grace.h"
#include "sparse/weight_store.h"

namespace millrace::ps {

struct RemoteOptions {
  JobConfig config;
  ClientOptions client;  // but for join.config and gives_up, which the store makes
};

// One round trip a step: a push asks for the weights of the next batch as well. In sync mode the
// answer waits until the step is complete, and the keys of the batch after that one go along, so
// that the servers can prepare for them. In the other modes a push waits until the next Pull, and
// goes out together with the keys of the batch after that one: the round trip then happens while
// that batch is being computed, and its weights lack the worker's own last push.
//
// Errors: kFailed when the job has failed (the message says why); kIo when a server is gone;
// kCancelled when the caller asked to stop and the step under way does not end within some seconds,
// because a worker stands still: only Stop and what follows it can be called then. Not thread-safe.
class RemoteStore final : public sparse::WeightStore {
  struct Private {};  // only Connect makes stores

 public:
  // Joins the job on all shards. `transport` and `clock` outlive the store.
  static Result<std::unique_ptr<RemoteStore>> Connect(Transport& transport, Clock& clock,
                                                      RemoteOptions options);
  RemoteStore(Private, Transport& transport, Clock& clock, RemoteOptions options);

  // For the chief (worker 0), before Start. Checkpoints that all shards have, newest first.
  const std::vector<uint64_t>& checkpoints() const { return clients_.checkpoints(); }
  Status Restore(uint64_t checkpoint) { return clients_.Restore(checkpoint); }
  // What the chief gave to Checkpoint; empty where nothing was restored.
  Result<std::string> ChiefState() { return clients_.ChiefState(); }
  // Keys ascend.
  Status LoadWeights(std::span<const uint64_t> keys, std::span<const float> weights) {
    return clients_.LoadWeights(keys, weights);
  }

  // Where this worker is: the pushes that all shards have, and the state that the last of them
  // brought. A worker that comes back, or a job that was restored, goes on from there.
  struct Place {
    uint64_t sequence = 0;
    std::string state;
  };
  // Waits until all workers have joined and the chief has called it.
  Result<Place> Start();

  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override;
  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient) override;
  void Announce(std::span<const uint64_t> next, std::span<const uint64_t> after) override;
  int announcements() const override { return pipelined() ? 1 : 2; }
  void Describe(const sparse::PushInfo& info) override { info_ = info; }
  // Of the worker, after the next Push.
  void SetState(std::string state) { state_ = std::move(state); }

  // Sends what is left, hears the answers, and brings progress() up to date.
  Status Flush();
  // The chief's, when it has nothing to push any more: waits for the next step of the others, so
  // that tests, checkpoints and a stop still come between two steps (in sync mode; elsewhere, and
  // with backup workers, for some time). `state` is the worker's, as it stays. False when no other
  // worker pushes any more.
  Result<bool> Accompany(const std::string& state);
  // The chief's: ends the training of all workers; nothing that is pushed later counts, nor does a
  // step that is not complete.
  Status Stop();
  // The chief has done so.
  bool stopped() const { return stopped_; }
  // This worker pushes no more.
  Status Finish();
  // Waits until no worker pushes any more.
  Status WaitDrained() { return clients_.WaitDrained(); }
  Status Leave();

  // The chief's: all shards write a checkpoint under that number. In sync mode it is the state
  // after the last step; elsewhere each shard's present one. kFailed when it cannot be written, or
  // when a worker stands still that some shards have heard and others not.
  Status Checkpoint(uint64_t id, const std::string& chief_state);
  // Calls visit(key, weight) for all weights that are not zero, in the order of keys.
  Status ReadModel(const std::function<void(uint64_t key, float weight)>& visit) {
    return clients_.ReadModel(visit);
  }

  // Any other call to one shard, made again where a connection breaks. Different shards may be
  // called by different threads at the same time.
  Status CallShard(size_t shard, const std::function<Status(Channel&)>& call) {
    return clients_[shard].Call(call);
  }
  // The caller was asked to stop some seconds ago: the step under way has had its time.
  // Thread-safe.
  bool GivesUp() { return stop_grace_.over(); }
  // It has: the batch that was being learnt from is lost to this process.
  bool gave_up() const { return gave_up_; }

  // Of the whole job, as the last answer had it.
  const JobProgress& progress() const { return progress_; }
  uint64_t sequence() const { return sequence_; }
  // Shard by shard.
  Result<std::vector<StatsReply>> Stats() { return clients_.Stats(); }
  const WireStats& wire(size_t shard) const { return clients_[shard].stats(); }
  size_t shards() const { return clients_.size(); }
  // To be added to this process's steady clock to get that of shard 0.
  int64_t clock_offset_ns() const { return clients_.clock_offset_ns(); }

 private:
  // Whether a shard should keep a key list that is pulled, because it will be asked for again.
  enum class ListUse { kOnce, kAgain };

  bool pipelined() const { return options_.config.mode != Mode::kSync; }
  // Every step has a push of every worker.
  bool together() const { return !pipelined() && options_.config.replicas_to_aggregate == 0; }
  ClientOptions MakeClientOptions();
  // Fills a list that is going to be announced.
  void Prepare(KeySplit& list, std::span<const uint64_t> keys);
  Status FillOutgoing(std::span<const uint64_t> keys, std::span<const float> gradient);
  // Sends `ready_`, if there is something, and asks for the weights of `pull` (null: none).
  Status Send(KeySplit* pull, ListUse use = ListUse::kOnce);
  // What goes to each shard beside the push; null where there is nothing.
  struct Lists {
    KeySplit* pull = nullptr;
    ListUse use = ListUse::kOnce;
    const KeySplit* next = nullptr;  // to be pulled by the next one
  };
  Status Send(const Lists& lists);
  Status SendTo(size_t shard, const Lists& lists, profiler::TraceScope& span);
  // Asks for the weights of the batch that begins, or of the announced one.
  Status SendFirst(std::span<const uint64_t> keys);
  Status SendAnnounced();
  // Hears the answers to the last Send, of all shards even if one gives up. Without `weights` they
  // are kept in stash_.
  Status Receive(std::optional<std::span<float>> weights);
  // Takes in what an answer says of the job.
  void Hear(size_t shard, const ExchangeReply& reply);
  Status UnpackWeights(size_t shard, const KeySplit& pull, std::span<float> weights);
  Status SendNext();
  Status CheckSameStep() const;
  Status PullNow(std::span<const uint64_t> keys, std::span<float> weights);

  Clock& clock_;
  RemoteOptions options_;
  Sharding sharding_;
  StopGrace stop_grace_;
  JobClients clients_;

  sparse::PushInfo info_;
  std::string state_;
  uint64_t sequence_ = 0;
  JobProgress progress_;
  bool stopped_ = false;
  bool alone_ = false;                 // no other worker pushes any more
  bool accompanies_ = false;           // the others, without pushes of its own
  bool gave_up_ = false;               // on the step under way
  std::vector<uint64_t> shard_steps_;  // as the last answers had them

  KeySplit pulled_;     // whose weights the caller has
  KeySplit asked_;      // in flight, or answered into stash_
  KeySplit announced_;  // to be asked for next
  KeySplit following_;  // to be asked for after that
  KeySplit other_;      // of a pull that nobody announced
  KeySplit spare_;      // not wanted any more, with bytes that are on the wire
  bool in_flight_ = false;
  KeySplit* in_flight_pull_ = nullptr;
  bool begun_ = false;    // a batch has been pulled
  bool stashed_ = false;  // the weights of asked_ are in stash_
  PodVector<float> stash_;
  OutgoingPush ready_, sent_;
  std::vector<std::unordered_set<uint64_t>> kept_;  // lists that a shard should know, by shard

  std::vector<uint64_t> steps_, stash_steps_;  // of the weights that the caller has, and of stash_
  std::vector<ExchangeReply> replies_;
  FloatCodec floats_;
  PodVector<float> part_;
};

}  // namespace millrace::ps
