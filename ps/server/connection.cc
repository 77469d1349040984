// SPDX-License-Identifier: Apache-2.0
#include "ps/server/connection.h"

#include <thrift/TApplicationException.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "gen-cpp/parameter_server_constants.h"
#include "profiler/trace.h"
#include "ps/wire/exchange_wire.h"
#include "ps/wire/rpc_messages.h"

namespace millrace::ps {
namespace {

using apache::thrift::TApplicationException;
using apache::thrift::protocol::T_EXCEPTION;
using apache::thrift::protocol::T_REPLY;
using apache::thrift::protocol::TProtocol;
using apache::thrift::transport::TTransportException;

// After a worker has joined.
ConnectionLimits LimitsOf(const NumberLayout& layout) {
  ConnectionLimits limits;
  if (layout.per_feature == 0) return limits;
  constexpr size_t kNumbers = NumberLayout::kMaxNumbers * sizeof(float);
  limits.max_message += kNumbers - static_cast<size_t>(limits.max_string);
  limits.max_string = kNumbers + 1;
  return limits;
}

}  // namespace

Connection::Connection(ServerState& state, PendingConnections::Entry pending,
                       std::shared_ptr<MessageProtocol> protocol,
                       std::shared_ptr<MessageTransport> output)
    : state_(state),
      pending_(std::move(pending)),
      protocol_(std::move(protocol)),
      output_(std::move(output)),
      handler_(state.shard) {
  protocol_->setStringSizeLimit(state.unauthenticated_limits.max_string);
  protocol_->transport().SetLimits(state.unauthenticated_limits);
}

Connection::~Connection() { CountCall(nullptr); }

// The bytes since the last call are its reply and the present request: the reply counts for the
// last call's kind, the request for `kind`.
void Connection::CountCall(const char* kind) {
  const MessageTransport::Bytes before = std::exchange(
      counted_, {.in = protocol_->transport().bytes().in, .out = output_->bytes().out});
  const ShardLock lock(state_.shard);
  if (last_kind_) state_.calls[last_kind_].bytes_out += counted_.out - before.out;
  last_kind_ = kind;
  if (!kind) return;
  CallCount& count = state_.calls[kind];
  ++count.messages;
  count.bytes_in += counted_.in - before.in;
}

// A peer that sends noise before it has joined is counted; it cannot fill the log.
void Connection::CountCorrupt(const std::string& what) {
  {
    const ShardLock lock(state_.shard);
    ++state_.corrupt;
  }
  if (!handler_.joined() || !state_.on_note) return;
  state_.on_note("worker " + std::to_string(handler_.worker()) + ": " + what +
                 "; the connection is closed");
}

void Connection::Refuse(const std::string& message) {
  output_->CloseAfterReply();
  {
    const ShardLock lock(state_.shard);
    ++state_.refused;
  }
  rpc::Refused refused;
  refused.message = message;
  throw refused;
}

void Connection::ThrowIf(const Status& status) {
  if (status.ok()) return;
  if (status.code() == Code::kBusy) {
    rpc::Refused refused;
    refused.message = status.message();
    refused.busy = true;
    throw refused;
  }
  if (status.code() == Code::kInvalid || status.code() == Code::kCorrupt) Refuse(status.message());
  rpc::JobFailed failed;
  failed.message = status.message();
  throw failed;
}

void Connection::Enter(const char* kind, int32_t worker, int64_t generation) {
  if (!handler_.joined()) Refuse("expected join first");
  CountCall(kind);
  if (worker < 0 || static_cast<size_t>(worker) != handler_.worker() ||
      static_cast<uint64_t>(generation) != handler_.generation()) {
    Refuse("this connection belongs to another worker");
  }
}

void Connection::hello(std::string& server_nonce, const std::string& nonce) {
  CountCall("hello");
  if (nonce.size() != kNonceBytes) {
    Refuse("hello: expected a nonce of " + std::to_string(kNonceBytes) + " bytes, found " +
           std::to_string(nonce.size()));
  }
  if (nonces_) Refuse("expected join after hello");
  Result<std::string> drawn = DrawNonce();
  ThrowIf(drawn.status());
  server_nonce = *drawn;
  nonces_ = {.worker = nonce, .server = std::move(*drawn)};
}

void Connection::join(rpc::JoinReply& reply, const rpc::JoinRequest& request) {
  CountCall("join");
  const int32_t version = rpc::g_parameter_server_constants.kProtocolVersion;
  if (request.version != version) {
    Refuse("protocol: expected version " + std::to_string(version) + ", found " +
           std::to_string(request.version));
  }
  if (!nonces_) Refuse("expected hello first");
  const Nonces nonces = std::move(*std::exchange(nonces_, std::nullopt));
  if (!IsSameProof(request.proof, RequestProof(state_.token, nonces, request))) {
    Refuse("the token is not this job's");
  }
  pending_.Remove();
  if (request.worker < 0) Refuse("worker: expected a number from 0 on");
  JoinReply out;
  ThrowIf(handler_.Join(FromRpc(request), out));
  ToRpc(out, reply);
  reply.proof = ReplyProof(state_.token, nonces, reply);
  if (!out.blocked_on.empty()) return;
  profiler::NameThread("for worker " + std::to_string(handler_.worker()));
  const ConnectionLimits limits = LimitsOf(handler_.batch_layout());
  protocol_->setStringSizeLimit(limits.max_string);
  protocol_->transport().SetLimits(limits);
}

void Connection::start(rpc::StartReply& reply, const rpc::StartRequest& request) {
  Enter("start", request.worker, request.generation);
  StartReply out;
  ThrowIf(handler_.Start(request.open, out));
  ToRpc(out, reply);
}

void Connection::exchange(rpc::ExchangeReply&, const rpc::ExchangeRequest&) {
  CHECK(false);  // ConnectionProcessor never calls it
}

void Connection::Exchange(const ExchangeRequest& request, ExchangeReply& reply) {
  const int64_t begin_ns = state_.shard.NowNs();
  Enter("exchange", request.worker, request.generation);
  const int64_t entered_ns = state_.shard.NowNs();
  ThrowIf(handler_.Exchange(request, reply));
  reply.server_ns += entered_ns - begin_ns;  // the wait for the shard's lock
}

void Connection::stop(int32_t worker, int64_t generation) {
  Enter("stop", worker, generation);
  ThrowIf(handler_.Stop());
}

void Connection::finish(int32_t worker, int64_t generation) {
  Enter("finish", worker, generation);
  ThrowIf(handler_.Finish());
}

void Connection::all_finished(rpc::AllFinishedReply& reply, int32_t worker, int64_t generation,
                              int64_t until_examples) {
  Enter("all_finished", worker, generation);
  AllFinishedReply out;
  ThrowIf(handler_.AllFinished(static_cast<uint64_t>(until_examples), out));
  ToRpc(out, reply);
}

void Connection::leave(int32_t worker, int64_t generation) {
  Enter("leave", worker, generation);
  ThrowIf(handler_.Leave());
}

void Connection::Dense(const char* kind, DenseMethod method, const rpc::DenseRequest& request,
                       rpc::DenseReply& reply) {
  if (request.block < 0 || request.sequence < 0 || request.rows < 0) {
    Refuse("a dense block: expected numbers from 0 on");
  }
  Enter(kind, request.worker, request.generation);
  DenseReply out;
  ThrowIf((handler_.*method)(FromRpc(request), out));
  ToRpc(out, reply);
}

void Connection::init_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  Dense("init_dense", &WorkerHandler::InitDense, request, reply);
}

void Connection::push_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  Dense("push_dense", &WorkerHandler::PushDense, request, reply);
}

void Connection::pull_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) {
  Dense("pull_dense", &WorkerHandler::PullDense, request, reply);
}

void Connection::hold_pushes(rpc::HoldReply& reply, int32_t worker, int64_t generation, bool hold,
                             const std::vector<int64_t>& last_pushes) {
  Enter("hold_pushes", worker, generation);
  if (std::any_of(last_pushes.begin(), last_pushes.end(), [](int64_t n) { return n < 0; })) {
    Refuse("last_pushes: expected numbers from 0 on");
  }
  HoldReply out;
  ThrowIf(handler_.HoldPushes(
      {.hold = hold, .last_pushes = {last_pushes.begin(), last_pushes.end()}}, out));
  ToRpc(out, reply);
}

void Connection::checkpoint(rpc::CheckpointReply& reply, int32_t worker, int64_t generation,
                            int64_t step, const std::string& chief_state, int64_t committed) {
  Enter("checkpoint", worker, generation);
  CheckpointRequest request = {.id = static_cast<uint64_t>(step), .chief_state = chief_state};
  if (committed >= 0) request.committed = static_cast<uint64_t>(committed);
  ThrowIf(handler_.Checkpoint(request, reply.done));
}

void Connection::restore(rpc::CheckpointReply& reply, int32_t worker, int64_t generation,
                         int64_t step, int64_t shards, const std::string& earlier_run) {
  Enter("restore", worker, generation);
  ThrowIf(handler_.Restore({.id = static_cast<uint64_t>(step),
                            .shards = static_cast<uint64_t>(shards),
                            .earlier_run = earlier_run},
                           reply.done));
}

void Connection::restored(rpc::RestoredReply& reply, int32_t worker, int64_t generation) {
  Enter("restored", worker, generation);
  RestoredReply out;
  ThrowIf(handler_.Restored(out));
  ToRpc(out, reply);
}

void Connection::place_workers(int32_t worker, int64_t generation,
                               const std::vector<std::string>& states) {
  Enter("place_workers", worker, generation);
  ThrowIf(handler_.PlaceWorkers(states));
}

void Connection::entries(rpc::EntriesReply& reply, int32_t worker, int64_t generation,
                         int64_t first) {
  Enter("entries", worker, generation);
  EntriesReply out;
  ThrowIf(handler_.Entries(first, out));
  reply.entries = std::move(out.entries);
  reply.next_first = out.next;
}

void Connection::load(int32_t worker, int64_t generation, const std::string& entries) {
  Enter("load", worker, generation);
  ThrowIf(handler_.Load(entries));
}

void Connection::stats(rpc::StatsReply& reply, int32_t worker, int64_t generation) {
  Enter("stats", worker, generation);
  StatsReply out;
  ThrowIf(handler_.Stats(out));
  {
    const ShardLock lock(state_.shard);
    for (const auto& [kind, count] : state_.calls) {
      out.calls.push_back(count);
      out.calls.back().kind = kind;
    }
  }
  ToRpc(out, reply);
}

bool ConnectionProcessor::process(std::shared_ptr<TProtocol> in, std::shared_ptr<TProtocol> out,
                                  void* context) {
  try {
    return ParameterServerProcessor::process(std::move(in), std::move(out), context);
  } catch (const TTransportException& error) {
    if (error.getType() == TTransportException::CORRUPTED_DATA) {
      connection_->CountCorrupt(error.what());
    }
    throw;
  }
}

bool ConnectionProcessor::dispatchCall(TProtocol* in, TProtocol* out, const std::string& name,
                                       int32_t sequence, void* context) {
  if (name != "exchange") {
    return ParameterServerProcessor::dispatchCall(in, out, name, sequence, context);
  }
  Exchange(dynamic_cast<MessageProtocol&>(*in), dynamic_cast<MessageProtocol&>(*out), sequence);
  return true;
}

void ConnectionProcessor::Exchange(MessageProtocol& in, MessageProtocol& out, int32_t sequence) {
  ExchangeRequest request;
  ReadExchangeArgs(in, request);
  in.transport().readEnd();  // views of the request stay valid until the next message
  reply_ = {};
  rpc::ParameterServer_exchange_result result;
  try {
    connection_->Exchange(request, reply_);
    result.__isset.success = true;
  } catch (const rpc::Refused& refused) {
    result.refused = refused;
    result.__isset.refused = true;
  } catch (const rpc::JobFailed& failed) {
    result.failed = failed;
    result.__isset.failed = true;
  } catch (const std::exception& error) {
    out.writeMessageBegin("exchange", T_EXCEPTION, sequence);
    const TApplicationException message(error.what());
    message.write(&out);
    out.transport().flush();
    return;
  }
  out.writeMessageBegin("exchange", T_REPLY, sequence);
  if (result.__isset.success) {
    WriteExchangeResult(reply_, out);
  } else {
    result.write(&out);
  }
  out.transport().flush();
}

}  // namespace millrace::ps
