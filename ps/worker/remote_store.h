// SPDX-License-Identifier: Apache-2.0
// The model on the servers of a job: what a worker's training loop pulls from and pushes to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "profiler/trace.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/messages.h"
#include "ps/worker/job_session.h"
#include "ps/worker/key_split.h"
#include "sparse/weight_store.h"

namespace millrace::ps {

// One round trip per step: a push also requests the weights of the next batch. In sync mode the
// reply waits until the step is complete. In the other modes a push is deferred until the next
// PullBatch and travels with the keys of the batch after that one: the round trip then overlaps
// with the computation of a batch, whose weights lack the worker's own last push.
//
// Errors are those of JobSession; kCancelled if the caller asked to stop and the step under way
// does not end within some seconds, because another worker is stopped. Not thread-safe.
class RemoteStore final : public sparse::WeightStore {
 public:
  // `session` outlives the store and has started before the first Pull or Push.
  explicit RemoteStore(JobSession& session);

  bool has_intercept() const override { return session_.config().intercept; }
  bool has_scales() const override { return layout_.per_key > 1; }
  sparse::FactorShape factors() const override { return session_.config().factors; }
  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override;
  Status PullFactors(std::span<const uint64_t> features, std::span<float> factors) override;
  void Prefetch(uint64_t batch, std::span<const uint64_t> keys) override;
  bool wants_prefetch() const override { return true; }
  Status PullBatch(uint64_t batch, std::span<const uint64_t> keys,
                   std::span<float> weights) override;
  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient,
              const sparse::PushInfo& info) override;

  // The worker's state after the next Push: the servers keep it for a worker that resumes.
  void SetState(std::string state) { state_ = std::move(state); }

  // Sends a deferred push, receives all replies, and brings the session's progress up to date.
  Status Flush();

  const WireStats& wire(size_t shard) const { return session_.client(shard).stats(); }

 private:
  // A push for one shard and the memory that its request shows.
  struct ShardPush {
    ExchangeRequest request;
    std::string keys, gradient;
  };
  // One push on its way. Memory is reused: a push that is not present keeps its buffers.
  struct OutgoingPush {
    bool present = false;
    bool list_known = false;  // the server has sent its weights
    std::string state;
    std::vector<ShardPush> shards;
  };
  // A push waits for the next PullBatch.
  bool defers() const { return session_.config().mode != Mode::kSync; }
  Status FillOutgoing(std::span<const uint64_t> keys, std::span<const float> gradient,
                      const sparse::PushInfo& info);
  // Sends `ready_`, if present, and requests the weights of `pull` (null: none).
  Status Send(KeySplit* pull, PullOf what = PullOf::kBatch);
  Status SendTo(size_t shard, KeySplit* pull, PullOf what, profiler::TraceScope& span);
  // Sends `ready_` and requests the prefetched batch.
  Status SendPrefetched();
  // With deferred pushes: starts the round trip of the next batch.
  Status SendAhead();
  // Receives the replies to the last Send, of all shards even if one gives up. Without `weights`
  // they go to stash_.
  Status Receive(std::optional<std::span<float>> weights);
  Status UnpackWeights(size_t shard, const KeySplit& pull, std::span<float> weights);
  // For evaluation: `of_each` numbers of each key.
  Status PullAsIs(PullOf what, std::span<const uint64_t> keys, size_t of_each,
                  std::span<float> numbers);

  JobSession& session_;
  const NumberLayout layout_;  // of a batch
  std::string state_;

  KeySplit current_;     // whose weights the caller has
  KeySplit requested_;   // in flight, or received into stash_
  KeySplit prefetched_;  // to be requested next
  KeySplit other_;       // of a pull outside of training batches
  bool in_flight_ = false;
  KeySplit* in_flight_pull_ = nullptr;
  PullOf in_flight_of_ = PullOf::kBatch;
  bool stashed_ = false;  // the weights of requested_ are in stash_
  PodVector<float> stash_;
  OutgoingPush ready_, sent_;
  std::vector<std::unordered_set<uint64_t>> kept_;  // lists that a shard should know, by shard

  std::vector<uint64_t> steps_, stash_steps_;  // of current_'s weights, and of stash_; by shard
  std::vector<ExchangeReply> replies_;
  FloatCodec floats_;
  PodVector<float> part_;
};

}  // namespace millrace::ps
