#include "ps/server/connection.h"

#include <optional>
#include <utility>

#include "gen-cpp/parameter_server_constants.h"
#include "profiler/trace.h"
#include "ps/wire/rpc_messages.h"

namespace millrace::ps {
namespace {

using profiler::Cat;

constexpr int64_t kWorthALookNs = 10000;  // shorter work is in nobody's way
constexpr char kAtCheckpoint[] = "the server, which writes or reads a checkpoint";

// Takes the same time wherever the difference is.
bool SameToken(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

rpc::JobFailed Failure(const Status& status) {
  rpc::JobFailed failed;
  failed.message = status.message();
  return failed;
}

}  // namespace

Connection::Connection(ServerState& state, Strangers::Visit visit,
                       std::shared_ptr<MessageProtocol> protocol,
                       std::shared_ptr<MessageTransport> output)
    : state_(state),
      visit_(std::move(visit)),
      protocol_(std::move(protocol)),
      output_(std::move(output)) {
  protocol_->setStringSizeLimit(state.stranger_limits.max_string);
  protocol_->transport().SetLimits(state.stranger_limits);
}

Connection::~Connection() {
  CountLastCall(nullptr);
  std::lock_guard lock(state_.mu);
  job_.reset();  // the shard sees that its weights are free
  if (!joined_) return;
  if (!state_.stopping) state_.shard.Disconnected(worker_, generation_, NowNs());
  state_.changed.notify_all();
}

// The bytes since the last call are its answer and the present request: the answer goes to its
// kind, the request to `kind`.
void Connection::CountLastCall(const char* kind) {
  const MessageTransport::Bytes before = std::exchange(
      counted_, {.in = protocol_->transport().bytes().in, .out = output_->bytes().out});
  std::lock_guard lock(state_.mu);
  if (last_kind_) state_.calls[last_kind_].bytes_out += counted_.out - before.out;
  last_kind_ = kind;
  if (!kind) return;
  CallCount& count = state_.calls[kind];
  ++count.messages;
  count.bytes_in += counted_.in - before.in;
}

void Connection::Refuse(const std::string& message) {
  output_->CloseAfterReply();
  {
    std::lock_guard lock(state_.mu);
    ++state_.refused;
  }
  rpc::Refused refused;
  refused.message = message;
  throw refused;
}

void Connection::ThrowIf(const Status& status) {
  if (status.ok()) return;
  if (status.code() == Code::kInvalid || status.code() == Code::kCorrupt) {
    Refuse(status.message());
  }
  throw Failure(status);
}

Connection::Lock Connection::Enter(const char* kind, int32_t worker, int64_t generation) {
  if (!joined_) Refuse("expected join first");
  CountLastCall(kind);
  Status status;
  Lock lock(state_.mu);
  if (worker < 0 || static_cast<size_t>(worker) != worker_ ||
      static_cast<uint64_t>(generation) != generation_) {
    status = Invalid("this connection belongs to another worker");
  } else {
    status = state_.shard.CheckCaller(worker_, generation_);
  }
  if (status.ok()) status = state_.shard.failed();
  if (status.ok()) return lock;
  lock.unlock();
  ThrowIf(status);
  return lock;
}

void Connection::join(rpc::JoinReply& reply, const rpc::JoinRequest& request) {
  CountLastCall("join");
  if (request.version != rpc::g_parameter_server_constants.kProtocolVersion) {
    Refuse("protocol: expected version " +
           std::to_string(rpc::g_parameter_server_constants.kProtocolVersion) + ", found " +
           std::to_string(request.version));
  }
  if (!SameToken(request.token, state_.token)) Refuse("the token is not this job's");
  visit_.End();
  if (request.worker < 0) Refuse("worker: expected a number from 0 on");
  if (joined_) Refuse("this connection has joined already");
  Lock lock(state_.mu);
  if (!state_.WaitFree(lock)) {
    reply.waiting = kAtCheckpoint;
    return;
  }
  const auto generation = state_.shard.Join(
      static_cast<size_t>(request.worker), request.name, request.config, request.rejoin,
      JoinAttempt{.process = static_cast<uint64_t>(request.process),
                  .number = static_cast<uint64_t>(request.attempt)});
  if (!generation.ok()) {
    lock.unlock();
    ThrowIf(generation.status());
  }
  joined_ = true;
  worker_ = static_cast<size_t>(request.worker);
  generation_ = *generation;
  job_ = std::make_unique<ExchangeJob>(worker_);
  profiler::NameThread("for worker " + std::to_string(worker_));
  const ConnectionLimits limits;
  protocol_->setStringSizeLimit(limits.max_string);
  protocol_->transport().SetLimits(limits);
  if (state_.poll) protocol_->transport().Poll();
  reply.generation = static_cast<int64_t>(generation_);
  reply.clock_ns = NowNs();
  reply.instance = state_.instance;
  for (const uint64_t id : state_.shard.SavedCheckpoints())
    reply.checkpoints.push_back(static_cast<int64_t>(id));
  state_.changed.notify_all();
}

void Connection::start(rpc::StartReply& reply, const rpc::StartRequest& request) {
  Lock lock = Enter("start", request.worker, request.generation);
  if (!state_.WaitFree(lock)) {
    reply.waiting = kAtCheckpoint;
    return;
  }
  if (request.open) {
    const Status opened = state_.shard.Open(worker_);
    if (!opened.ok()) {
      lock.unlock();
      ThrowIf(opened);
    }
    state_.changed.notify_all();
  }
  state_.WaitUntil(lock, [&] { return state_.shard.StartWaitsFor().empty(); });
  reply.waiting = state_.shard.StartWaitsFor();
  const WorkerRecord& record = state_.shard.worker(worker_);
  reply.sequence = static_cast<int64_t>(record.received);
  reply.state = record.received_state;
  reply.step = static_cast<int64_t>(state_.shard.progress().step);
  reply.examples = static_cast<int64_t>(state_.shard.progress().examples);
  reply.clock_ns = NowNs();
}

void Connection::exchange(rpc::ExchangeReply& out, const rpc::ExchangeRequest& in) {
  ExchangeReply reply;
  Exchange({.worker = in.worker, .generation = in.generation, .request = FromRpc(in)}, reply);
  ToRpc(reply, out);
}

void Connection::Exchange(const ExchangeCall& call, ExchangeReply& reply) {
  const ExchangeRequest& request = call.request;
  profiler::TraceScope span(
      "serve_exchange", Cat::kServer,
      {.bytes = static_cast<int64_t>(request.gradient.size() + request.push_keys.size() +
                                     request.pull_keys.size() + request.next_keys.size())});
  span.FlowIn(FlowId(worker_, state_.shard.options().shard, request.sequence));
  const int64_t begin_ns = NowNs();
  Lock lock = Enter("exchange", call.worker, call.generation);
  if (!state_.WaitFree(lock)) {
    reply.outcome = Outcome::kWaiting;
    reply.waiting = kAtCheckpoint;
  } else if (!job_->FindLists(state_.shard, request)) {
    reply.outcome = Outcome::kUnknownList;
  } else {
    Answer(lock, request, reply);
  }
  reply.server_ns = NowNs() - begin_ns - reply.barrier_ns + std::exchange(in_the_way_ns_, 0);
}

void Connection::Answer(Lock& lock, const ExchangeRequest& request, ExchangeReply& reply) {
  const uint64_t local_features = state_.shard.local_features();
  const bool zstd = state_.shard.config().zstd;
  lock.unlock();
  ThrowIf(job_->Decode(request, local_features));
  lock.lock();
  Status status = state_.shard.CheckCaller(worker_, generation_);
  if (status.ok() && !state_.WaitFree(lock)) {
    reply.outcome = Outcome::kWaiting;
    reply.waiting = kAtCheckpoint;
    return;
  }
  const uint64_t step_before = state_.shard.progress().step;
  if (status.ok()) status = job_->Take(state_.shard, request, NowNs());
  if (status.ok() && state_.shard.progress().step != step_before) state_.changed.notify_all();
  if (status.ok() && !job_->Ready(state_.shard, request)) {
    profiler::TraceScope span("barrier_wait", Cat::kBarrier);
    const int64_t wait_ns = NowNs();
    state_.WaitUntil(lock, [&] { return job_->Ready(state_.shard, request); });
    reply.barrier_ns = NowNs() - wait_ns;
    span.Set("worker", state_.shard.last_worker());
    status = state_.shard.failed();
  }
  if (status.ok() && !(job_->Ready(state_.shard, request) && state_.WaitFree(lock))) {
    reply.outcome = Outcome::kWaiting;
    reply.waiting = state_.shard.AnswerWaitsFor(worker_);
    return;
  }
  if (status.ok()) status = job_->Answer(state_.shard, request, reply);
  lock.unlock();
  if (status.ok()) status = job_->Encode(request, zstd, reply);
  ThrowIf(status);
}

void Connection::LookAhead(const ExchangeRequest& request) {
  if (request.next_list == 0 && !job_->looks_ahead()) return;
  TRACE_SCOPE("look_ahead", Cat::kServer);
  const int64_t begin_ns = NowNs();
  ThrowIf(job_->DecodeNext(request, state_.shard.local_features()));
  if (job_->looks_ahead()) {
    std::lock_guard lock(state_.mu);
    const bool mine = state_.shard.CheckCaller(worker_, generation_).ok();
    if (mine && !state_.busy && !state_.stopping) (void)job_->LookAhead(state_.shard);
  }
  // A request that has come meanwhile had to wait for half of that, taken all together.
  const int64_t took_ns = NowNs() - begin_ns;
  const bool waits = took_ns > kWorthALookNs && protocol_->transport().HasInput();
  in_the_way_ns_ = waits ? took_ns / 2 : 0;
}

void Connection::stop(int32_t worker, int64_t generation) {
  Lock lock = Enter("stop", worker, generation);
  const Status status = state_.shard.Stop(worker_);
  state_.changed.notify_all();
  lock.unlock();
  ThrowIf(status);
}

void Connection::finish(int32_t worker, int64_t generation) {
  const Lock lock = Enter("finish", worker, generation);
  state_.shard.Finish(worker_, NowNs());
  state_.changed.notify_all();
}

void Connection::drained(std::string& waiting, int32_t worker, int64_t generation) {
  Lock lock = Enter("drained", worker, generation);
  state_.WaitUntil(lock, [&] { return state_.shard.DrainWaitsFor().empty(); });
  waiting = state_.shard.DrainWaitsFor();
  if (waiting.empty() && worker_ == 0) state_.shard.EndJoins();
  const Status failed = state_.shard.failed();
  lock.unlock();
  ThrowIf(failed);
}

void Connection::leave(int32_t worker, int64_t generation) {
  const Lock lock = Enter("leave", worker, generation);
  state_.shard.Leave(worker_, NowNs());
  joined_ = false;
  state_.changed.notify_all();
}

bool Connection::LongWork(Lock& lock, uint64_t id, const std::function<Status(Shard&)>& work) {
  const std::optional<Status> done = state_.WorkLong(lock, id, work);
  if (done && !done->ok()) throw Failure(*done);
  return done.has_value();
}

void Connection::checkpoint(rpc::CheckpointReply& reply, int32_t worker, int64_t generation,
                            int64_t step, const std::string& chief_state) {
  Lock lock = Enter("checkpoint", worker, generation);
  const auto id = static_cast<uint64_t>(step);
  state_.Settle();
  reply.done =
      LongWork(lock, id, [id, chief_state](Shard& shard) { return shard.Save(id, chief_state); });
}

void Connection::restore(rpc::CheckpointReply& reply, int32_t worker, int64_t generation,
                         int64_t step) {
  Lock lock = Enter("restore", worker, generation);
  const auto id = static_cast<uint64_t>(step);
  reply.done = LongWork(lock, id, [id](Shard& shard) { return shard.Restore(id); });
}

void Connection::chief_state(std::string& state, int32_t worker, int64_t generation) {
  const Lock lock = Enter("chief_state", worker, generation);
  state = state_.shard.chief_state();
}

void Connection::entries(rpc::EntriesReply& reply, int32_t worker, int64_t generation,
                         int64_t first) {
  const Lock lock = Enter("entries", worker, generation);
  state_.Settle();
  reply.following = model_.Read(state_.shard.store(), first, reply.entries);
}

void Connection::load(int32_t worker, int64_t generation, const std::string& entries) {
  EntryList list;
  ThrowIf(DecodeEntries(entries, list));
  Lock lock = Enter("load", worker, generation);
  Status status;
  if (state_.shard.StartWaitsFor().empty()) {
    status = Invalid("the job has begun: no weights can be loaded any more");
  }
  sparse::LocalStore& store = state_.shard.store();
  for (const Entry& entry : list) {
    if (!status.ok()) break;
    status = store.LoadWeight(entry.key, entry.weight);
  }
  lock.unlock();
  ThrowIf(status);
}

// Numbers of a block that has come; packed ones must be as many as the block has.
Status Connection::DecodeDense(Lock& lock, const rpc::DenseRequest& request) {
  const auto block = static_cast<size_t>(request.block);
  const size_t width = FloatCodec::RawWidth(request.values);
  const auto& table = state_.shard.dense();
  if (width > 0) {
    dense_.resize((request.values.size() - 1) / width);
  } else if (table && table->Has(block)) {
    dense_.resize(table->weights(block).size());
  } else {
    return Invalid("dense block " + std::to_string(block) + " is packed, and not known");
  }
  lock.unlock();
  const Status decoded = floats_.Decode(request.values, dense_);
  lock.lock();
  return decoded.ok() ? state_.shard.CheckCaller(worker_, generation_) : decoded;
}

// The block that a dense call is about; its numbers are in dense_. No lock where the shard is not
// free: `reply` then says so.
Connection::Lock Connection::EnterDense(const char* kind, const rpc::DenseRequest& request,
                                        rpc::DenseReply& reply) {
  if (request.block < 0 || request.sequence < 0 || request.rows < 0) {
    Refuse("a dense block: expected numbers from 0 on");
  }
  Lock lock = Enter(kind, request.worker, request.generation);
  bool free = state_.WaitFree(lock);
  if (free && !request.values.empty()) {
    const Status decoded = DecodeDense(lock, request);
    if (!decoded.ok()) lock.unlock();
    ThrowIf(decoded);
    free = state_.WaitFree(lock);
  }
  if (free) return lock;
  reply.waiting = kAtCheckpoint;
  lock.unlock();
  return lock;
}

void Connection::init_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  Lock lock = EnterDense("init_dense", request, reply);
  if (!lock) return;
  const Status status = state_.shard.InitDense(worker_, static_cast<size_t>(request.block), dense_);
  state_.changed.notify_all();
  lock.unlock();
  ThrowIf(status);
}

void Connection::push_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  TRACE_SCOPE("serve_push_dense", Cat::kServer,
              {.bytes = static_cast<int64_t>(request.values.size())});
  Lock lock = EnterDense("push_dense", request, reply);
  if (!lock) return;
  const Status status = state_.shard.PushDense(static_cast<size_t>(request.block),
                                               {.worker = worker_,
                                                .sequence = static_cast<uint64_t>(request.sequence),
                                                .step = static_cast<uint64_t>(request.step),
                                                .rows = static_cast<uint32_t>(request.rows),
                                                .mean = dense_});
  state_.changed.notify_all();
  lock.unlock();
  ThrowIf(status);
}

void Connection::pull_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  TRACE_SCOPE("serve_pull_dense", Cat::kServer);
  Lock lock = EnterDense("pull_dense", request, reply);
  if (!lock) return;
  const auto block = static_cast<size_t>(request.block);
  const auto sequence = static_cast<uint64_t>(request.sequence);
  const auto ready = [&] {
    return state_.shard.DenseReady(worker_, block, sequence) && !state_.busy;
  };
  {
    TRACE_SCOPE("barrier_wait", Cat::kBarrier);
    state_.WaitUntil(lock, ready);
  }
  Status status = state_.shard.failed();
  if (status.ok() && !ready()) {
    reply.waiting = state_.busy ? kAtCheckpoint : state_.shard.AnswerWaitsFor(worker_);
    if (reply.waiting.empty()) reply.waiting = "worker 0 to prepare the model";
    return;
  }
  if (status.ok()) {
    const DenseTable::View view = state_.shard.dense()->For(block, worker_, sequence);
    reply.step = static_cast<int64_t>(view.steps);
    if (state_.shard.config().zstd) {  // takes long: not while the others wait for the shard
      dense_.assign(view.weights.begin(), view.weights.end());
      lock.unlock();
      status = floats_.Encode(dense_, {.zstd = true}, reply.values);
    } else {
      status = floats_.Encode(view.weights, {}, reply.values);
    }
  }
  if (lock) lock.unlock();
  ThrowIf(status);
}

void Connection::stats(rpc::StatsReply& reply, int32_t worker, int64_t generation) {
  const Lock lock = Enter("stats", worker, generation);
  const Shard& shard = state_.shard;
  StatsReply stats;
  stats.clock_ns = NowNs();
  stats.step = shard.progress().step;
  stats.examples = shard.progress().examples;
  stats.keys_pulled = shard.keys_pulled();
  stats.keys_pushed = shard.keys_pushed();
  for (const auto& [kind, count] : state_.calls) {
    stats.calls.push_back(count);
    stats.calls.back().kind = kind;
  }
  for (size_t i = 0; i < shard.options().num_workers; ++i) {
    const WorkerRecord& record = shard.worker(i);
    stats.workers.push_back({.worker = i,
                             .name = record.name,
                             .state = WorkerPhaseName(record.phase),
                             .pushes = record.pushes,
                             .examples = record.examples,
                             .dropped = record.dropped,
                             .waited_s = static_cast<double>(record.waited_ns) * 1e-9});
  }
  ToRpc(stats, reply);
}

}  // namespace millrace::ps
