#include "ps/worker/remote_store.h"

#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

namespace millrace::ps {
namespace {

using profiler::Cat;

constexpr size_t kMaxKeysPerPull = 512 << 10;  // over all shards
constexpr int64_t kAccompanyNs = int64_t{20} * 1000000;

// A number that tells this process from one started later in its place. It is not drawn from the
// run's seed, which both would share.
Status DrawIdentity(uint64_t* process) {
  if (::getrandom(process, sizeof *process, 0) != sizeof *process)
    return IoError("no random bytes for the worker's identity", errno);
  *process |= 1;  // 0 stands for no identity
  return {};
}

}  // namespace

RemoteStore::RemoteStore(Private, Transport& transport, Clock& clock, RemoteOptions options)
    : clock_(clock),
      options_(std::move(options)),
      sharding_(options_.config.num_features, transport.shards()),
      stop_grace_(clock, options_.client.join.worker, options_.client.should_stop),
      clients_(transport, clock, sharding_, MakeClientOptions()) {
  kept_.resize(clients_.size());
  steps_.resize(clients_.size());
  shard_steps_.resize(clients_.size());
  stash_steps_.resize(clients_.size());
  replies_.resize(clients_.size());
  ready_.parts.resize(clients_.size());
  sent_.parts.resize(clients_.size());
}

ClientOptions RemoteStore::MakeClientOptions() {
  ClientOptions client = options_.client;
  client.join.config = options_.config.Fields().Encode();
  client.gives_up = [this] { return GivesUp(); };
  return client;
}

Result<std::unique_ptr<RemoteStore>> RemoteStore::Connect(Transport& transport, Clock& clock,
                                                          RemoteOptions options) {
  RETURN_IF_ERROR(options.config.Validate());
  RETURN_IF_ERROR(DrawIdentity(&options.client.join.process));
  auto store = std::make_unique<RemoteStore>(Private{}, transport, clock, std::move(options));
  RETURN_IF_ERROR(store->clients_.Join());
  return store;
}

Result<RemoteStore::Place> RemoteStore::Start() {
  ASSIGN_OR_RETURN(StartReply reply, clients_.Start());
  progress_.step = reply.step;
  progress_.examples = reply.examples;
  sequence_ = reply.sequence;
  return Place{.sequence = reply.sequence, .state = std::move(reply.state)};
}

void RemoteStore::Announce(std::span<const uint64_t> next, std::span<const uint64_t> after) {
  if (following_.Is(next)) {
    std::swap(announced_, following_);
    following_.Clear();
  } else if (next.empty() || (!announced_.Is(next) && !asked_.Is(next))) {
    Prepare(announced_, next);  // empty lists may all be in the same place
  }
  if (following_.Is(after)) return;
  following_.Clear();
  if (!after.empty()) Prepare(following_, after);
}

// At most one list is on the wire: there is room for it in spare_.
void RemoteStore::Prepare(KeySplit& list, std::span<const uint64_t> keys) {
  if (list.on_wire()) std::swap(list, spare_);
  list.Assign(sharding_, keys);
}

Status RemoteStore::FillOutgoing(std::span<const uint64_t> keys, std::span<const float> gradient) {
  ready_.list_known = pulled_.Is(keys);
  if (!ready_.list_known) pulled_.Assign(sharding_, keys);
  ready_.present = true;
  ready_.sequence = ++sequence_;
  ready_.info = info_;
  std::swap(ready_.state, state_);
  const FloatFormat format = {.bf16 = options_.config.bf16, .zstd = options_.config.zstd};
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    OutgoingPush::Part& out = ready_.parts[shard];
    KeySplit::Part& part = pulled_.part(shard);
    out.step = steps_[shard];
    out.signature = part.signature;
    std::swap(out.keys, part.encoded);
    if (clients_.size() == 1) {
      RETURN_IF_ERROR(floats_.Encode(gradient, format, out.gradient));
    } else {
      pulled_.Take(shard, gradient, part_);
      RETURN_IF_ERROR(floats_.Encode(part_, format, out.gradient));
    }
  }
  pulled_.Clear();
  return {};
}

Status RemoteStore::Send(KeySplit* pull, ListUse use) { return Send({.pull = pull, .use = use}); }

Status RemoteStore::Send(const Lists& lists) {
  const auto [pull, use, next] = lists;
  profiler::TraceScope span("exchange_send", Cat::kNetwork,
                            {.keys = pull ? static_cast<int64_t>(pull->size()) : 0});
  CHECK(!in_flight_);
  std::swap(ready_, sent_);
  ready_.present = false;
  size_t bytes = 0;
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    RETURN_IF_ERROR(SendTo(shard, lists, span));
    bytes += (sent_.present ? sent_.parts[shard].gradient.size() : 0) +
             (pull && !pull->heard_of() ? pull->part(shard).encoded.size() : 0) +
             (next ? next->part(shard).encoded.size() : 0);
  }
  span.args().bytes = static_cast<int64_t>(bytes);
  in_flight_ = true;
  in_flight_pull_ = pull;
  return {};
}

Status RemoteStore::SendTo(size_t shard, const Lists& lists, profiler::TraceScope& span) {
  const auto [pull, use, next] = lists;
  ExchangeRequest request;
  request.sequence = sequence_;
  if (sent_.present) sent_.AddTo(shard, request);
  bool pull_list_known = false;
  if (pull) {
    const KeySplit::Part& part = pull->part(shard);
    request.pulls = true;
    request.pull_list = part.signature;
    request.pull_keys = part.encoded;
    request.keep_list = use == ListUse::kAgain;
    pull_list_known =
        pull->heard_of() || (request.keep_list && !kept_[shard].insert(part.signature).second);
  }
  if (next) {
    request.next_list = next->part(shard).signature;
    request.next_keys = next->part(shard).encoded;
  }
  span.FlowOut(FlowId(options_.client.join.worker, shard, request.sequence));
  Status sent = clients_[shard].Send(request, sent_.list_known, pull_list_known);
  gave_up_ |= sent.code() == Code::kCancelled;
  return sent;
}

Status RemoteStore::Receive(std::optional<std::span<float>> into) {
  profiler::TraceScope span("exchange_wait", Cat::kNetwork);
  in_flight_ = false;
  for (KeySplit* list : {&announced_, &following_, &spare_}) list->SetAnswered();
  size_t bytes = 0;
  const KeySplit* pull = std::exchange(in_flight_pull_, nullptr);
  const bool stashing = pull && !into;
  if (stashing) {
    stash_.resize(pull->size());
    stashed_ = true;
  }
  const std::span<float> weights = into.value_or(stash_);
  int64_t slowest_ns = 0, waited_ns = 0;
  size_t slowest = 0;
  Status given_up;
  for (size_t shard = 0; shard < clients_.size(); ++shard) {
    ExchangeReply& reply = replies_[shard];
    const int64_t waited_before_ns = clients_[shard].stats().wait_ns;
    const Status received = clients_[shard].Receive(reply);
    if (received.code() == Code::kCancelled) {
      given_up = received;
      continue;
    }
    RETURN_IF_ERROR(received);
    bytes += reply.weights.size();
    waited_ns += clients_[shard].stats().wait_ns - waited_before_ns;
    if (shard == 0 || reply.barrier_ns + reply.server_ns > slowest_ns) {
      slowest = shard;
      slowest_ns = reply.barrier_ns + reply.server_ns;
      span.Set("server_ns", reply.server_ns);
      span.Set("barrier_ns", reply.barrier_ns);
      span.Set("straggler", reply.last_worker);
    }
    Hear(shard, reply);
    // A dense job pulls no keys: its blocks are fetched after each step, and are those of it. Nor
    // does who only accompanies the others.
    if (!pull && (options_.config.dense || accompanies_)) steps_[shard] = reply.step;
    if (!pull) continue;
    (stashing ? stash_steps_ : steps_)[shard] = reply.step;
    RETURN_IF_ERROR(UnpackWeights(shard, *pull, weights));
  }
  span.args().bytes = static_cast<int64_t>(bytes);
  if (given_up.ok()) clients_[slowest].CountCause(waited_ns, replies_[slowest]);
  gave_up_ |= !given_up.ok();
  return given_up;
}

void RemoteStore::Hear(size_t shard, const ExchangeReply& reply) {
  shard_steps_[shard] = reply.step;
  if (shard == 0) {
    progress_ = {
        .step = reply.step, .examples = reply.examples, .loss = reply.loss, .weight = reply.weight};
  }
  stopped_ |= reply.stop;
  alone_ = reply.alone && (shard == 0 || alone_);
}

Status RemoteStore::UnpackWeights(size_t shard, const KeySplit& pull, std::span<float> weights) {
  const std::string_view bytes = replies_[shard].weights;
  Status decoded;
  if (clients_.size() == 1) {
    decoded = floats_.Decode(bytes, weights);
  } else {
    part_.resize(pull.part(shard).keys);
    decoded = floats_.Decode(bytes, part_);
    if (decoded.ok()) pull.Put(shard, part_, weights);
  }
  if (decoded.ok()) return {};
  return Invalid(clients_[shard].Describe() + ": " + decoded.message());
}

Status RemoteStore::SendFirst(std::span<const uint64_t> keys) {
  asked_.Assign(sharding_, keys);
  if (announcements() < 2 || !announced_.is_set()) return Send(&asked_);
  announced_.SetHeardOf();
  return Send({.pull = &asked_, .next = &announced_});
}

Status RemoteStore::SendAnnounced() {
  std::swap(asked_, announced_);
  announced_.Clear();
  if (announcements() < 2 || !following_.is_set()) return Send(&asked_);
  following_.SetHeardOf();
  return Send({.pull = &asked_, .next = &following_});
}

// In the pipelined modes: the round trip of the batch after the one that the caller goes on with.
Status RemoteStore::SendNext() {
  if (!pipelined() || !announced_.is_set() || in_flight_ || stashed_) return {};
  return SendAnnounced();
}

Status RemoteStore::Pull(std::span<const uint64_t> keys, std::span<float> weights) {
  TRACE_SCOPE("pull", Cat::kOp, {.keys = static_cast<int64_t>(keys.size())});
  if (asked_.Is(keys) && stashed_) {
    std::copy(stash_.begin(), stash_.end(), weights.begin());
    steps_ = stash_steps_;
    stashed_ = false;
  } else if (asked_.Is(keys) && in_flight_) {
    RETURN_IF_ERROR(Receive(weights));
  } else if (!begun_) {
    begun_ = true;
    RETURN_IF_ERROR(SendFirst(keys));
    RETURN_IF_ERROR(Receive(weights));
  } else {
    return PullNow(keys, weights);
  }
  std::swap(pulled_, asked_);
  asked_.Clear();
  return SendNext();
}

// Not announced: a batch of a test.
Status RemoteStore::PullNow(std::span<const uint64_t> keys, std::span<float> weights) {
  if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
  if (keys.empty()) return {};
  for (size_t at = 0; at < keys.size(); at += kMaxKeysPerPull) {
    const size_t count = std::min(kMaxKeysPerPull, keys.size() - at);
    other_.Assign(sharding_, keys.subspan(at, count));
    RETURN_IF_ERROR(Send(&other_, ListUse::kAgain));
    RETURN_IF_ERROR(Receive(weights.subspan(at, count)));
  }
  other_.Clear();
  return SendNext();
}

Status RemoteStore::Push(std::span<const uint64_t> keys, std::span<const float> gradient) {
  TRACE_SCOPE("push", Cat::kOp, {.keys = static_cast<int64_t>(keys.size())});
  // In flight is at most the pull of the next batch; two pushes in a row without a pull between
  // them wait for each other.
  if (ready_.present) {
    if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
    RETURN_IF_ERROR(Send(nullptr));
  }
  if (in_flight_ && !pipelined()) RETURN_IF_ERROR(Receive(std::nullopt));
  RETURN_IF_ERROR(FillOutgoing(keys, gradient));
  if (pipelined()) return {};
  return !announced_.is_set() || stashed_ ? Send(nullptr) : SendAnnounced();
}

Status RemoteStore::Flush() {
  const bool heard = in_flight_ && sent_.present && sent_.sequence == sequence_;
  if (in_flight_) RETURN_IF_ERROR(Receive(std::nullopt));
  if (!ready_.present && heard) return {};
  RETURN_IF_ERROR(Send(nullptr));
  return Receive(std::nullopt);
}

Result<bool> RemoteStore::Accompany(const std::string& state) {
  if (!std::exchange(accompanies_, true)) {
    RETURN_IF_ERROR(together() ? Flush() : Finish());
    if (stopped_) return false;
  }
  if (together() && !alone_) {
    info_ = {};
    state_ = state;
    RETURN_IF_ERROR(Push({}, {}));
  } else {
    clock_.Pause(kAccompanyNs);
  }
  RETURN_IF_ERROR(Flush());
  return !alone_ && !stopped_;
}

Status RemoteStore::Stop() {
  const Status flushed = gave_up_ ? Status() : Flush();
  if (!gave_up_) RETURN_IF_ERROR(flushed);  // or else it gave up just now
  return clients_.CallAll([](size_t, Channel& channel) { return channel.Stop(); });
}

Status RemoteStore::Finish() {
  RETURN_IF_ERROR(Flush());
  return clients_.CallAll([](size_t, Channel& channel) { return channel.Finish(); });
}

Status RemoteStore::Leave() {
  return clients_.CallAll([](size_t, Channel& channel) { return channel.Leave(); });
}

// Shards can only differ where a worker stood still between its pushes to them.
Status RemoteStore::CheckSameStep() const {
  if (!together()) return {};
  for (size_t shard = 1; shard < clients_.size(); ++shard) {
    if (shard_steps_[shard] == shard_steps_[0]) continue;
    return Failed("no checkpoint was written: " + clients_[0].Describe() + " is at step " +
                  std::to_string(shard_steps_[0]) + " and " + clients_[shard].Describe() +
                  " at step " + std::to_string(shard_steps_[shard]) +
                  ", with a step half made; the last one stays");
  }
  return {};
}

Status RemoteStore::Checkpoint(uint64_t id, const std::string& chief_state) {
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(CheckSameStep());
  return clients_.Checkpoint(id, chief_state);
}

}  // namespace millrace::ps
