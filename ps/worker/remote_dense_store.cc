// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/remote_dense_store.h"

#include <algorithm>
#include <utility>

#include "profiler/trace.h"
#include "ps/worker/dense_cut.h"

namespace millrace::ps {

using profiler::Cat;

namespace {

// The bytes of calls without the numbers: names, types and lengths of fields in Thrift's binary
// protocol.
constexpr uint64_t kPushBytes = 92, kPushReplyBytes = 56;
constexpr uint64_t kPullBytes = 92, kPullReplyBytes = 56;

// Adds the bytes that pass through the channel during its lifetime to `wire`.
class Measure {
 public:
  Measure(const Channel& channel, WireStats& wire)
      : channel_(channel),
        wire_(wire),
        sent_(channel.bytes_sent()),
        received_(channel.bytes_received()) {}
  ~Measure() {
    wire_.sent += channel_.bytes_sent() - sent_;
    wire_.received += channel_.bytes_received() - received_;
  }
  Measure(const Measure&) = delete;
  Measure& operator=(const Measure&) = delete;

 private:
  const Channel& channel_;
  WireStats& wire_;
  const uint64_t sent_, received_;
};

}  // namespace

RemoteDenseStore::RemoteDenseStore(JobSession& session) : session_(session), steps_(session) {
  for (size_t shard = 0; shard < session_.shards(); ++shard) {
    senders_.push_back(std::make_unique<Sender>());
    Sender& sender = *senders_.back();
    sender.thread = std::jthread([this, &sender, shard](const std::stop_token& stop) {
      profiler::NameThread("to server " + std::to_string(shard));
      Run(sender, stop);
    });
  }
}

RemoteDenseStore::~RemoteDenseStore() {
  for (auto& sender : senders_) sender->thread.request_stop();
  for (auto& sender : senders_) sender->thread.join();
}

void RemoteDenseStore::Run(Sender& sender, const std::stop_token& stop) {
  std::unique_lock lock(mu_);
  while (changed_.wait(lock, stop, [&] { return !sender.calls.empty(); })) {
    const std::function<Status()> call = std::move(sender.calls.front());
    sender.calls.pop_front();
    sender.busy = true;
    const bool well = sender.status.ok();
    lock.unlock();
    Status status = well ? call() : Status();
    lock.lock();
    if (!status.ok()) sender.status = std::move(status);
    sender.busy = false;
    changed_.notify_all();
  }
}

void RemoteDenseStore::Enqueue(size_t shard, std::function<Status()> call) {
  std::lock_guard lock(mu_);
  senders_[shard]->calls.push_back(std::move(call));
  changed_.notify_all();
}

// Waits until every call is made. Returns the first error.
Status RemoteDenseStore::WaitForSenders() {
  TRACE_SCOPE("dense_wait", Cat::kNetwork);
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] {
    return std::all_of(senders_.begin(), senders_.end(),
                       [](const auto& sender) { return sender->calls.empty() && !sender->busy; });
  });
  for (const auto& sender : senders_) {
    if (!sender->status.ok()) return sender->status;
  }
  return {};
}

void RemoteDenseStore::MakeBlocks(std::span<const sparse::DenseParam> params) {
  std::vector<size_t> sizes;
  for (const sparse::DenseParam& param : params) sizes.push_back(param.weights.size());
  for (const DensePiece& piece : CutDense(sizes, senders_.size(), kBlockFloats)) {
    Block block;
    block.param = piece.param;
    block.weights = params[piece.param].weights.subspan(piece.begin, piece.size);
    block.shard = piece.shard;
    block.number = static_cast<uint32_t>(blocks_.size());
    blocks_.push_back(std::move(block));
    bytes_a_step_ += sizeof(float) * piece.size;
  }
}

Status RemoteDenseStore::SendInit(Block& block) {
  Sender& sender = *senders_[block.shard];
  RETURN_IF_ERROR(sender.codec.Encode(block.weights, {}, sender.values));
  DenseReply reply;
  return session_.client(block.shard).Call([&](Channel& channel) {
    return channel.InitDense({.block = block.number, .values = sender.values}, reply);
  });
}

Status RemoteDenseStore::SendGradient(Block& block, uint64_t sequence, uint32_t rows) {
  Sender& sender = *senders_[block.shard];
  profiler::TraceScope span("push_dense", Cat::kNetwork);
  const FloatFormat format = {.bf16 = session_.config().bf16, .zstd = session_.config().zstd};
  RETURN_IF_ERROR(sender.codec.Encode(block.gradient, format, sender.values));
  span.args().bytes = static_cast<int64_t>(sender.values.size());
  ++sender.wire.exchanges;
  sender.wire.predicted_sent += kPushBytes + sender.values.size();
  sender.wire.predicted_received += kPushReplyBytes;
  DenseReply reply;
  return session_.client(block.shard).Call([&](Channel& channel) {
    const Measure measure(channel, sender.wire);
    return channel.PushDense({.block = block.number,
                              .sequence = sequence,
                              .step = block.step,
                              .rows = rows,
                              .values = sender.values},
                             reply);
  });
}

Status RemoteDenseStore::Fetch(Block& block) {
  Sender& sender = *senders_[block.shard];
  profiler::TraceScope span("pull_dense", Cat::kNetwork);
  DenseReply reply;
  while (true) {
    ++sender.wire.exchanges;
    sender.wire.predicted_sent += kPullBytes;
    RETURN_IF_ERROR(session_.client(block.shard).Call([&](Channel& channel) {
      const Measure measure(channel, sender.wire);
      return channel.PullDense({.block = block.number, .sequence = sequence_}, reply);
    }));
    sender.wire.predicted_received +=
        kPullReplyBytes + reply.values.size() + reply.blocked_on.size();
    if (reply.blocked_on.empty()) break;
    if (session_.ShouldGiveUp()) return Cancelled("interrupted");
  }
  span.args().bytes = static_cast<int64_t>(reply.values.size());
  block.step = reply.step;
  return sender.codec.Decode(reply.values, block.weights);
}

Status RemoteDenseStore::Init(std::span<const sparse::DenseParam> params) {
  MakeBlocks(params);
  for (Block& block : blocks_) {
    if (session_.chief()) Enqueue(block.shard, [this, &block] { return SendInit(block); });
  }
  RETURN_IF_ERROR(WaitForSenders());
  ASSIGN_OR_RETURN(resume_point_, session_.Start());
  sequence_ = resume_point_.sequence;
  RETURN_IF_ERROR(steps_.Flush());  // for the step of a job that is under way
  return Refresh();
}

void RemoteDenseStore::SetStep(const sparse::PushInfo& info, std::string state) {
  info_ = info;
  state_ = std::move(state);
}

Status RemoteDenseStore::Push(size_t param, std::span<const float> gradient) {
  if (!pushing_) ++sequence_;
  pushing_ = true;
  size_t at = 0;
  for (Block& block : blocks_) {
    if (block.param != param) continue;
    const std::span<const float> part = gradient.subspan(at, block.weights.size());
    at += part.size();
    block.gradient.assign(part.begin(), part.end());
    Enqueue(block.shard, [this, &block, sequence = sequence_, rows = std::max(info_.rows, 1u)] {
      return SendGradient(block, sequence, rows);
    });
  }
  return {};
}

// The step is one push without keys, which carries its counts and the worker's state.
Status RemoteDenseStore::EndStep() {
  pushing_ = false;
  RETURN_IF_ERROR(WaitForSenders());
  steps_.SetState(std::move(state_));
  RETURN_IF_ERROR(steps_.Push({}, {}, info_));
  RETURN_IF_ERROR(steps_.Flush());
  return session_.stopped() ? Status() : Refresh();  // after a stop the step is never complete
}

Status RemoteDenseStore::Refresh() {
  for (Block& block : blocks_) Enqueue(block.shard, [this, &block] { return Fetch(block); });
  return WaitForSenders();
}

WireStats RemoteDenseStore::wire(size_t shard) const {
  WireStats sum = steps_.wire(shard);
  sum.Add(senders_[shard]->wire);
  return sum;
}

Status RemoteDenseStore::Pull(size_t) { return pushing_ ? EndStep() : Status(); }

}  // namespace millrace::ps
