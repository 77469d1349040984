// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/remote_store.h"

#include <algorithm>

namespace millrace::ps {
namespace {

using profiler::Cat;

// Of an evaluation, over all shards.
constexpr size_t kMaxKeysPerPull = 512 << 10, kMaxNumbersPerPull = 4 << 20;

}  // namespace

RemoteStore::RemoteStore(JobSession& session)
    : session_(session),
      layout_(session.config().batch_layout()),
      kept_(session.shards()),
      steps_(session.shards()),
      stash_steps_(session.shards()),
      replies_(session.shards()) {
  ready_.shards.resize(session.shards());
  sent_.shards.resize(session.shards());
}

void RemoteStore::Prefetch(uint64_t batch, std::span<const uint64_t> keys) {
  if (prefetched_.IsBatch(batch) || requested_.IsBatch(batch)) return;
  prefetched_.Assign(session_.sharding(), batch, keys);
}

Status RemoteStore::FillOutgoing(std::span<const uint64_t> keys, std::span<const float> gradient,
                                 const sparse::PushInfo& info) {
  ready_.list_known = current_.IsBatch(info.batch);
  if (!ready_.list_known) current_.Assign(session_.sharding(), 0, keys);
  ready_.present = true;
  std::swap(ready_.state, state_);
  const uint64_t sequence = session_.NextSequence();
  const FloatFormat format = {.bf16 = session_.config().bf16, .zstd = session_.config().zstd};
  for (size_t shard = 0; shard < session_.shards(); ++shard) {
    ShardPush& out = ready_.shards[shard];
    KeySplit::Part& part = current_.part(shard);
    RETURN_IF_ERROR(layout_.Check(part.keys));
    std::swap(out.keys, part.encoded);
    if (session_.shards() == 1) {
      RETURN_IF_ERROR(floats_.Encode(gradient, format, out.gradient));
    } else {
      current_.Scatter(shard, gradient, part_, layout_.per_feature);
      RETURN_IF_ERROR(floats_.Encode(part_, format, out.gradient));
    }
    out.request = {.sequence = sequence,
                   .step = ready_.list_known ? steps_[shard] : session_.shard_step(shard),
                   .pushes = true,
                   .push_list = part.signature,
                   .push_keys = out.keys,
                   .gradient = out.gradient,
                   .rows = info.rows,
                   .weight = info.weight,
                   .loss = info.loss,
                   .state = ready_.state};
  }
  current_.Clear();
  return {};
}

Status RemoteStore::Send(KeySplit* pull, PullOf what) {
  profiler::TraceScope span("exchange_send", Cat::kNetwork,
                            {.keys = pull ? static_cast<int64_t>(pull->size()) : 0});
  CHECK(!in_flight_);
  std::swap(ready_, sent_);
  ready_.present = false;
  size_t bytes = 0;
  for (size_t shard = 0; shard < session_.shards(); ++shard) {
    RETURN_IF_ERROR(SendTo(shard, pull, what, span));
    bytes += (sent_.present ? sent_.shards[shard].gradient.size() : 0) +
             (pull ? pull->part(shard).encoded.size() : 0);
  }
  span.args().bytes = static_cast<int64_t>(bytes);
  in_flight_ = true;
  in_flight_pull_ = pull;
  in_flight_of_ = what;
  return {};
}

Status RemoteStore::SendTo(size_t shard, KeySplit* pull, PullOf what, profiler::TraceScope& span) {
  ExchangeRequest request;
  request.sequence = session_.sequence();
  if (sent_.present) {
    request = sent_.shards[shard].request;
    request.state = sent_.state;  // moved with sent_
  }
  bool pull_list_known = false;
  if (pull) {
    const KeySplit::Part& part = pull->part(shard);
    RETURN_IF_ERROR(layout_.Check(part.keys));
    request.pulls = true;
    request.pull_of = what;
    request.pull_list = part.signature;
    request.pull_keys = part.encoded;
    request.keep_list = what != PullOf::kBatch;  // test data is pulled again
    pull_list_known = request.keep_list && !kept_[shard].insert(part.signature).second;
  }
  span.FlowOut(FlowId(session_.worker(), shard, request.sequence));
  Status sent = session_.client(shard).Send(request, sent_.list_known, pull_list_known);
  if (sent.code() == Code::kCancelled) session_.SetGaveUp();
  return sent;
}

Status RemoteStore::Receive(std::optional<std::span<float>> into) {
  profiler::TraceScope span("exchange_wait", Cat::kNetwork);
  in_flight_ = false;
  size_t bytes = 0;
  const KeySplit* pull = std::exchange(in_flight_pull_, nullptr);
  const bool stashing = pull && !into;
  if (stashing) {
    stash_.resize(layout_.Count(pull->size(), pull->features()));
    stashed_ = true;
  }
  const std::span<float> weights = into.value_or(stash_);
  int64_t slowest_ns = 0, waited_ns = 0;
  size_t slowest = 0;
  Status given_up;
  // A server that is blocked on other workers does not keep this one from the next server, which
  // may need the push again on a new connection.
  for (ExchangeReply& reply : replies_) reply.outcome = Outcome::kBlocked;
  for (size_t waiting = session_.shards(), shard = 0; waiting > 0;
       shard = (shard + 1) % session_.shards()) {
    ExchangeReply& reply = replies_[shard];
    if (reply.outcome == Outcome::kDone) continue;
    ShardClient& client = session_.client(shard);
    const int64_t waited_before_ns = client.stats().wait_ns;
    const Status received = client.Receive(reply);
    if (received.code() == Code::kCancelled) {
      given_up = received;
      reply.outcome = Outcome::kDone;
      --waiting;
      continue;
    }
    RETURN_IF_ERROR(received);
    waited_ns += client.stats().wait_ns - waited_before_ns;
    if (reply.outcome == Outcome::kBlocked) continue;
    --waiting;
    bytes += reply.weights.size();
    if (shard == 0 || reply.barrier_ns + reply.server_ns > slowest_ns) {
      slowest = shard;
      slowest_ns = reply.barrier_ns + reply.server_ns;
      span.Set("server_ns", reply.server_ns);
      span.Set("barrier_ns", reply.barrier_ns);
      span.Set("straggler", reply.last_worker);
    }
    session_.Apply(shard, reply);
    if (!pull) continue;
    (stashing ? stash_steps_ : steps_)[shard] = reply.progress.step;
    RETURN_IF_ERROR(UnpackWeights(shard, *pull, weights));
  }
  span.args().bytes = static_cast<int64_t>(bytes);
  if (given_up.ok()) {
    session_.client(slowest).CountCause(waited_ns, replies_[slowest]);
  } else {
    session_.SetGaveUp();
  }
  return given_up;
}

Status RemoteStore::UnpackWeights(size_t shard, const KeySplit& pull, std::span<float> weights) {
  const std::string_view bytes = replies_[shard].weights;
  Status decoded;
  const NumberLayout layout = session_.config().LayoutOf(in_flight_of_);
  const KeySplit::Part& part = pull.part(shard);
  if (session_.shards() == 1) {
    decoded = floats_.Decode(bytes, weights);
  } else {
    part_.resize(layout.Count(part.keys, part.features));
    decoded = floats_.Decode(bytes, part_);
    if (decoded.ok()) pull.Gather(shard, part_, weights, layout.per_feature);
  }
  if (decoded.ok()) return {};
  return Invalid(session_.client(shard).Describe() + ": " + decoded.message());
}

Status RemoteStore::SendPrefetched() {
  std::swap(requested_, prefetched_);
  prefetched_.Clear();
  return Send(&requested_);
}

Status RemoteStore::SendAhead() {
  if (!defers() || !prefetched_.is_set() || in_flight_ || stashed_) return {};
  return SendPrefetched();
}

Status RemoteStore::PullBatch(uint64_t batch, std::span<const uint64_t> keys,
                              std::span<float> weights) {
  TRACE_SCOPE("pull", Cat::kOp, {.keys = static_cast<int64_t>(keys.size())});
  if (requested_.IsBatch(batch) && stashed_) {
    std::copy(stash_.begin(), stash_.end(), weights.begin());
    steps_ = stash_steps_;
    stashed_ = false;
  } else {
    if (!requested_.IsBatch(batch)) {  // the first batch, or one that was not prefetched
      if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
      stashed_ = false;
      requested_.Assign(session_.sharding(), batch, keys);
      RETURN_IF_ERROR(Send(&requested_));
    }
    RETURN_IF_ERROR(Receive(weights));
  }
  std::swap(current_, requested_);
  requested_.Clear();
  return SendAhead();
}

Status RemoteStore::Pull(std::span<const uint64_t> keys, std::span<float> weights) {
  return PullAsIs(PullOf::kWeights, keys, 1, weights);
}

Status RemoteStore::PullFactors(std::span<const uint64_t> features, std::span<float> factors) {
  return PullAsIs(PullOf::kFactors, features, layout_.per_feature, factors);
}

Status RemoteStore::PullAsIs(PullOf what, std::span<const uint64_t> keys, size_t of_each,
                             std::span<float> numbers) {
  if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
  if (keys.empty() || of_each == 0) return {};
  const std::vector<uint64_t> steps = steps_;  // of the present batch's weights
  const size_t at_once = std::min(kMaxKeysPerPull, kMaxNumbersPerPull / of_each);
  for (size_t at = 0; at < keys.size(); at += at_once) {
    const size_t count = std::min(at_once, keys.size() - at);
    other_.Assign(session_.sharding(), 0, keys.subspan(at, count));
    RETURN_IF_ERROR(Send(&other_, what));
    RETURN_IF_ERROR(Receive(numbers.subspan(at * of_each, count * of_each)));
  }
  steps_ = steps;
  other_.Clear();
  return SendAhead();
}

Status RemoteStore::Push(std::span<const uint64_t> keys, std::span<const float> gradient,
                         const sparse::PushInfo& info) {
  TRACE_SCOPE("push", Cat::kOp, {.keys = static_cast<int64_t>(keys.size())});
  // In flight is at most the pull of the next batch; a second push without a pull between them
  // first sends the deferred one.
  if (ready_.present) {
    if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
    RETURN_IF_ERROR(Send(nullptr));
  }
  if (in_flight_ && !defers()) RETURN_IF_ERROR(Receive(std::nullopt));
  RETURN_IF_ERROR(FillOutgoing(keys, gradient, info));
  if (defers()) return {};
  return !prefetched_.is_set() || stashed_ ? Send(nullptr) : SendPrefetched();
}

Status RemoteStore::Flush() {
  const bool current =
      in_flight_ && sent_.present && sent_.shards[0].request.sequence == session_.sequence();
  if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
  if (!ready_.present && current) return {};
  RETURN_IF_ERROR(Send(nullptr));
  return Receive(std::nullopt);
}

}  // namespace millrace::ps
