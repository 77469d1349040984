// SPDX-License-Identifier: Apache-2.0
#include "ps/server/worker_handler.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "profiler/trace.h"

namespace millrace::ps {
namespace {

using profiler::Cat;

}  // namespace

WorkerHandler::~WorkerHandler() {
  const ShardLock lock(access_);
  if (!joined()) return;
  exchange_.reset();  // the shard may reuse its buffers
  // A lost worker can complete a step, which must not change a checkpoint that is being written.
  while (!access_.WaitUntilFree()) {
    if (access_.shutting_down()) return;
  }
  access_.shard().Disconnected(worker_, generation_, access_.NowNs());
  access_.NotifyAll();
}

Status WorkerHandler::Enter() {
  if (!joined()) return Invalid("expected join first");
  if (!access_.WaitUntilFree()) return Busy(kBlockedOnCheckpoint);
  RETURN_IF_ERROR(access_.shard().CheckCaller(worker_, generation_));
  return access_.shard().failed();
}

Status WorkerHandler::EnterChief(const char* what) {
  RETURN_IF_ERROR(Enter());
  if (worker_ == 0) return {};
  return Invalid(std::string("only worker 0 ") + what + ", found worker " +
                 std::to_string(worker_));
}

Status WorkerHandler::Join(const JoinRequest& request, JoinReply& reply) noexcept {
  reply = {};
  if (joined()) return Invalid("this connection has joined already");
  const ShardLock lock(access_);
  if (!access_.WaitUntilFree()) {
    reply.blocked_on = kBlockedOnCheckpoint;
    return {};
  }
  Shard& shard = access_.shard();
  const auto may_join = [&] { return shard.JoinBlockedOn(request).empty(); };
  if (!may_join() && !access_.WaitUntil(may_join)) {
    reply.blocked_on = kBlockedOnCheckpoint;
    return {};
  }
  reply.blocked_on = shard.JoinBlockedOn(request);
  if (!reply.blocked_on.empty()) return {};
  ASSIGN_OR_RETURN(generation_, shard.Join(request));
  worker_ = request.worker;
  batch_layout_ = shard.config().batch_layout();
  exchange_ = std::make_unique<ExchangeHandler>(access_, worker_, generation_);
  reply.generation = generation_;
  reply.clock_ns = access_.NowNs();
  reply.instance = shard.options().instance;
  reply.checkpoints = shard.SavedCheckpoints();
  access_.NotifyAll();
  return {};
}

Status WorkerHandler::Start(bool open, StartReply& reply) noexcept {
  reply = {};
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  Shard& shard = access_.shard();
  if (open) {
    RETURN_IF_ERROR(shard.Open(worker_));
    access_.NotifyAll();
  }
  if (!access_.WaitUntil([&] { return shard.StartBlockedOn().empty(); })) {
    return Busy(kBlockedOnCheckpoint);
  }
  reply.blocked_on = shard.StartBlockedOn();
  const WorkerRecord& record = shard.worker(worker_);
  reply.sequence = record.received;
  reply.state = record.received_state;
  reply.step = shard.progress().step;
  reply.examples = shard.progress().examples;
  reply.clock_ns = access_.NowNs();
  return {};
}

Status WorkerHandler::Exchange(const ExchangeRequest& request, ExchangeReply& reply) noexcept {
  return joined() ? exchange_->Handle(request, reply) : Invalid("expected join first");
}

Status WorkerHandler::AcceptExchange(const ExchangeRequest& request,
                                     ExchangeReply& reply) noexcept {
  return joined() ? exchange_->Accept(request, reply) : Invalid("expected join first");
}

Status WorkerHandler::Stop() noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  const Status stopped = access_.shard().Stop(worker_);
  access_.NotifyAll();
  return stopped;
}

Status WorkerHandler::Finish() noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  access_.shard().Finish(worker_, access_.NowNs());
  access_.NotifyAll();
  return {};
}

Status WorkerHandler::AllFinished(uint64_t until_examples, AllFinishedReply& reply) noexcept {
  reply = {};
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  Shard& shard = access_.shard();
  const bool is_free = access_.WaitUntil([&] {
    return shard.progress().examples >= until_examples || shard.UnfinishedWorkers().empty();
  });
  if (!is_free) return Busy(kBlockedOnCheckpoint);
  reply.blocked_on = shard.UnfinishedWorkers();
  reply.progress = shard.progress();
  if (reply.blocked_on.empty() && worker_ == 0) shard.CloseJoins();
  return shard.failed();
}

Status WorkerHandler::Leave() noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  access_.shard().Leave(worker_, access_.NowNs());
  exchange_.reset();
  access_.NotifyAll();
  return {};
}

Status WorkerHandler::RunLong(uint64_t id, std::function<Status(Shard&)> work, bool& done) {
  const std::optional<Status> result = access_.RunLong(id, std::move(work));
  done = result.has_value();
  if (!result || result->ok()) return {};
  return Failed(result->message());  // a failure of the server, not of the request
}

Status WorkerHandler::HoldPushes(const HoldRequest& request, HoldReply& reply) noexcept {
  reply = {};
  const ShardLock lock(access_);
  RETURN_IF_ERROR(EnterChief("holds pushes"));
  Shard& shard = access_.shard();
  RETURN_IF_ERROR(shard.HoldPushes(request, access_.NowNs()));
  access_.NotifyAll();
  const auto arrived = [&] { return shard.HoldBlockedOn(access_.NowNs()).empty(); };
  if (!access_.WaitUntil(arrived)) return Busy(kBlockedOnCheckpoint);
  RETURN_IF_ERROR(shard.failed());
  reply.blocked_on = shard.HoldBlockedOn(access_.NowNs());
  for (size_t i = 0; i < shard.options().num_workers; ++i) {
    reply.received.push_back(shard.worker(i).received);
  }
  reply.progress = shard.progress();
  return {};
}

Status WorkerHandler::Checkpoint(const CheckpointRequest& request, bool& done) noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(EnterChief("orders checkpoints"));
  return RunLong(
      2 * request.id, [request](Shard& shard) { return shard.Save(request); }, done);
}

Status WorkerHandler::Restore(const RestoreRequest& request, bool& done) noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(EnterChief("restores checkpoints"));
  return RunLong(
      2 * request.id + 1, [request](Shard& shard) { return shard.Restore(request); }, done);
}

Status WorkerHandler::Restored(RestoredReply& reply) noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  reply = access_.shard().restored();
  return {};
}

Status WorkerHandler::PlaceWorkers(const std::vector<std::string>& states) noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(EnterChief("places workers"));
  return access_.shard().PlaceWorkers(states);
}

// All pieces show the model as it was when the first one was read. `first` is the number of a
// piece.
Status WorkerHandler::Entries(int64_t first, EntriesReply& reply) noexcept {
  reply = {};
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  // The latter on a new connection, in the middle.
  if (first == 0 || pieces_.empty()) EncodePieces();
  const auto pieces = static_cast<int64_t>(pieces_.size());
  if (first < 0 || first >= pieces) {
    pieces_.clear();
    return {};
  }
  reply.entries = pieces_[static_cast<size_t>(first)];
  reply.next = first + 1 < pieces ? first + 1 : -1;
  if (reply.next < 0) pieces_.clear();
  return {};
}

void WorkerHandler::EncodePieces() {
  const sparse::LocalStore& store = access_.shard().store();
  const size_t width = store.factor_width(), at_once = EntriesPerPiece(width);
  EntryList entries;
  std::vector<float> factors;
  pieces_.clear();
  const auto end_piece = [&] {
    EncodeEntries(entries, pieces_.emplace_back(), factors);
    entries.clear();
    factors.clear();
  };
  store.ForEach([&](uint64_t key, std::span<const float> slot) {
    const std::span<const float> parameters = slot.first(1 + width);
    if (std::all_of(parameters.begin(), parameters.end(), [](float x) { return x == 0; })) return;
    entries.push_back({.key = key, .weight = slot[0]});
    factors.insert(factors.end(), parameters.begin() + 1, parameters.end());
    if (entries.size() == at_once) end_piece();
  });
  if (!entries.empty()) end_piece();
}

Status WorkerHandler::Load(const std::string& entries) noexcept {
  const ShardLock lock(access_);
  RETURN_IF_ERROR(EnterChief("loads weights"));
  Shard& shard = access_.shard();
  if (shard.StartBlockedOn().empty()) {
    return Invalid("the job has begun: no weights can be loaded any more");
  }
  const size_t width = shard.store().factor_width();
  EntryList list;
  std::vector<float> factors;
  RETURN_IF_ERROR(DecodeEntries(entries, list, width, factors));
  for (size_t i = 0; i < list.size(); ++i) {
    const bool is_intercept = list[i].key == io::kInterceptKey;
    const auto mine = std::span(factors).subspan(i * width, is_intercept ? 0 : width);
    RETURN_IF_ERROR(shard.store().LoadWeight(list[i].key, list[i].weight, mine));
  }
  return {};
}

Status WorkerHandler::DecodeDense(ShardLock& lock, const DenseRequest& request) {
  const size_t width = FloatCodec::RawWidth(request.values);
  const auto& table = access_.shard().dense();
  if (width > 0) {
    dense_.resize((request.values.size() - 1) / width);
  } else if (table && table->Has(request.block)) {
    dense_.resize(table->weights(request.block).size());
  } else {
    return Invalid("dense block " + std::to_string(request.block) + " is packed, and unknown");
  }
  lock.unlock();
  const Status decoded = floats_.Decode(request.values, dense_);
  lock.lock();
  return decoded;
}

Status WorkerHandler::EnterDense(ShardLock& lock, const DenseRequest& request, DenseReply& reply) {
  reply = {};
  RETURN_IF_ERROR(Enter());
  if (request.values.empty()) return {};
  RETURN_IF_ERROR(DecodeDense(lock, request));
  return Enter();
}

Status WorkerHandler::InitDense(const DenseRequest& request, DenseReply& reply) noexcept {
  ShardLock lock(access_);
  RETURN_IF_ERROR(EnterDense(lock, request, reply));
  const Status done = access_.shard().InitDense(worker_, request.block, dense_);
  access_.NotifyAll();
  return done;
}

Status WorkerHandler::PushDense(const DenseRequest& request, DenseReply& reply) noexcept {
  TRACE_SCOPE("serve_push_dense", Cat::kServer,
              {.bytes = static_cast<int64_t>(request.values.size())});
  ShardLock lock(access_);
  RETURN_IF_ERROR(EnterDense(lock, request, reply));
  const Status done = access_.shard().PushDense(request.block, {.worker = worker_,
                                                                .sequence = request.sequence,
                                                                .step = request.step,
                                                                .rows = request.rows,
                                                                .mean = dense_});
  access_.NotifyAll();
  return done;
}

Status WorkerHandler::PullDense(const DenseRequest& request, DenseReply& reply) noexcept {
  TRACE_SCOPE("serve_pull_dense", Cat::kServer);
  ShardLock lock(access_);
  RETURN_IF_ERROR(EnterDense(lock, request, reply));
  Shard& shard = access_.shard();
  const auto ready = [&] { return shard.DenseReady(worker_, request.block, request.sequence); };
  {
    TRACE_SCOPE("barrier_wait", Cat::kBarrier);
    if (!access_.WaitUntil(ready)) return Busy(kBlockedOnCheckpoint);
  }
  RETURN_IF_ERROR(shard.failed());
  if (!ready()) {
    reply.blocked_on = shard.ReplyBlockedOn(worker_);
    if (reply.blocked_on.empty()) reply.blocked_on = "worker 0 to prepare the model";
    return {};
  }
  const DenseTable::View view = shard.dense()->For(request.block, worker_, request.sequence);
  reply.step = view.steps;
  if (!shard.config().zstd) return floats_.Encode(view.weights, {}, reply.values);
  dense_.assign(view.weights.begin(), view.weights.end());
  lock.unlock();  // packing takes long
  return floats_.Encode(dense_, {.zstd = true}, reply.values);
}

Status WorkerHandler::Stats(StatsReply& reply) noexcept {
  reply = {};
  const ShardLock lock(access_);
  RETURN_IF_ERROR(Enter());
  const Shard& shard = access_.shard();
  reply.clock_ns = access_.NowNs();
  reply.step = shard.progress().step;
  reply.examples = shard.progress().examples;
  reply.keys_pulled = shard.keys_pulled();
  reply.keys_pushed = shard.keys_pushed();
  for (size_t i = 0; i < shard.options().num_workers; ++i) {
    const WorkerRecord& record = shard.worker(i);
    reply.workers.push_back({.worker = i,
                             .name = record.name,
                             .state = WorkerPhaseName(record.phase),
                             .pushes = record.pushes,
                             .examples = record.examples,
                             .dropped = record.dropped,
                             .waited_s = static_cast<double>(record.waited_ns) * 1e-9});
  }
  return {};
}

}  // namespace millrace::ps
