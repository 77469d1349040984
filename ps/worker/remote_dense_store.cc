#include "ps/worker/remote_dense_store.h"

#include <algorithm>
#include <utility>

#include "profiler/trace.h"
#include "ps/worker/dense_cut.h"

namespace millrace::ps {

using profiler::Cat;

namespace {

// What calls take beside the numbers: names, types and lengths of fields in Thrift's binary
// protocol.
constexpr uint64_t kPushBytes = 92, kPushReplyBytes = 56;
constexpr uint64_t kPullBytes = 92, kPullReplyBytes = 56;

// Adds to `wire` what passes through the channel while it lives.
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

RemoteDenseStore::RemoteDenseStore(RemoteStore& job, const JobConfig& config, bool chief)
    : job_(job), config_(config), chief_(chief) {
  for (size_t shard = 0; shard < job_.shards(); ++shard) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    lane.thread = std::jthread([this, &lane, shard](const std::stop_token& stop) {
      profiler::NameThread("to server " + std::to_string(shard));
      Run(lane, stop);
    });
  }
}

RemoteDenseStore::~RemoteDenseStore() {
  for (auto& lane : lanes_) lane->thread.request_stop();
  for (auto& lane : lanes_) lane->thread.join();
}

void RemoteDenseStore::Run(Lane& lane, const std::stop_token& stop) {
  std::unique_lock lock(mu_);
  while (changed_.wait(lock, stop, [&] { return !lane.calls.empty(); })) {
    const std::function<Status()> call = std::move(lane.calls.front());
    lane.calls.pop_front();
    lane.busy = true;
    const bool well = lane.status.ok();
    lock.unlock();
    Status status = well ? call() : Status();
    lock.lock();
    if (!status.ok()) lane.status = std::move(status);
    lane.busy = false;
    changed_.notify_all();
  }
}

void RemoteDenseStore::Enqueue(size_t shard, std::function<Status()> call) {
  std::lock_guard lock(mu_);
  lanes_[shard]->calls.push_back(std::move(call));
  changed_.notify_all();
}

// Until every call is made. The first error, if there was one.
Status RemoteDenseStore::WaitForLanes() {
  TRACE_SCOPE("dense_wait", Cat::kNetwork);
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const auto& lane) { return lane->calls.empty() && !lane->busy; });
  });
  for (const auto& lane : lanes_) {
    if (!lane->status.ok()) return lane->status;
  }
  return {};
}

void RemoteDenseStore::MakeBlocks(std::span<const sparse::DenseParam> params) {
  std::vector<size_t> sizes;
  for (const sparse::DenseParam& param : params) sizes.push_back(param.weights.size());
  for (const DensePiece& piece : CutDense(sizes, lanes_.size(), kBlockFloats)) {
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
  Lane& lane = *lanes_[block.shard];
  RETURN_IF_ERROR(lane.codec.Encode(block.weights, {}, lane.values));
  return job_.CallShard(block.shard, [&](Channel& channel) {
    return channel.InitDense({.block = block.number, .values = lane.values});
  });
}

Status RemoteDenseStore::SendGradient(Block& block, uint64_t sequence, uint32_t rows) {
  Lane& lane = *lanes_[block.shard];
  profiler::TraceScope span("push_dense", Cat::kNetwork);
  const FloatFormat format = {.bf16 = config_.bf16, .zstd = config_.zstd};
  RETURN_IF_ERROR(lane.codec.Encode(block.gradient, format, lane.values));
  span.args().bytes = static_cast<int64_t>(lane.values.size());
  ++lane.wire.exchanges;
  lane.wire.predicted_sent += kPushBytes + lane.values.size();
  lane.wire.predicted_received += kPushReplyBytes;
  return job_.CallShard(block.shard, [&](Channel& channel) {
    const Measure measure(channel, lane.wire);
    return channel.PushDense({.block = block.number,
                              .sequence = sequence,
                              .step = block.step,
                              .rows = rows,
                              .values = lane.values});
  });
}

Status RemoteDenseStore::Fetch(Block& block) {
  Lane& lane = *lanes_[block.shard];
  profiler::TraceScope span("pull_dense", Cat::kNetwork);
  DenseReply reply;
  while (true) {
    ++lane.wire.exchanges;
    lane.wire.predicted_sent += kPullBytes;
    RETURN_IF_ERROR(job_.CallShard(block.shard, [&](Channel& channel) {
      const Measure measure(channel, lane.wire);
      return channel.PullDense({.block = block.number, .sequence = sequence_}, reply);
    }));
    lane.wire.predicted_received += kPullReplyBytes + reply.values.size() + reply.waiting.size();
    if (reply.waiting.empty()) break;
    if (job_.GivesUp()) return Cancelled("interrupted");
  }
  span.args().bytes = static_cast<int64_t>(reply.values.size());
  block.step = reply.step;
  return lane.codec.Decode(reply.values, block.weights);
}

Status RemoteDenseStore::Init(std::span<const sparse::DenseParam> params) {
  MakeBlocks(params);
  for (Block& block : blocks_) {
    if (chief_) Enqueue(block.shard, [this, &block] { return SendInit(block); });
  }
  RETURN_IF_ERROR(WaitForLanes());
  ASSIGN_OR_RETURN(place_, job_.Start());
  sequence_ = place_.sequence;
  RETURN_IF_ERROR(job_.Flush());  // which tells the job's step, where it did not begin just now
  return Refresh();
}

void RemoteDenseStore::Describe(const sparse::PushInfo& info, std::string state) {
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

// The step is one push of no keys: it carries what the step was made of and the worker's state.
Status RemoteDenseStore::EndStep() {
  pushing_ = false;
  RETURN_IF_ERROR(WaitForLanes());
  job_.Describe(info_);
  job_.SetState(std::move(state_));
  RETURN_IF_ERROR(job_.Push({}, {}));
  RETURN_IF_ERROR(job_.Flush());
  return job_.stopped() ? Status() : Refresh();  // after a stop no step is made any more
}

Status RemoteDenseStore::Refresh() {
  for (Block& block : blocks_) Enqueue(block.shard, [this, &block] { return Fetch(block); });
  return WaitForLanes();
}

WireStats RemoteDenseStore::wire(size_t shard) const {
  WireStats sum = job_.wire(shard);
  sum.Add(lanes_[shard]->wire);
  return sum;
}

Status RemoteDenseStore::Pull(size_t) { return pushing_ ? EndStep() : Status(); }

}  // namespace millrace::ps
