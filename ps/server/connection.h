// SPDX-License-Identifier: Apache-2.0
// One Thrift connection of a server: authenticates the peer, converts messages, counts bytes, and
// closes the connection on what it refuses. WorkerHandler does the work.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gen-cpp/ParameterServer.h"
#include "ps/server/pending_connections.h"
#include "ps/server/shared_shard.h"
#include "ps/server/worker_handler.h"
#include "ps/wire/handshake.h"
#include "ps/wire/message_protocol.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// What the connections of a server share.
struct ServerState {
  SharedShard& shard;
  const std::string token;
  const ConnectionLimits unauthenticated_limits;
  const std::function<void(const std::string&)> on_note = {};

  // Guarded by the shard's lock.
  std::map<std::string, CallCount> calls = {};
  uint64_t refused = 0;  // connections that were closed because of invalid messages
  uint64_t corrupt = 0;  // messages with a wrong CRC
};

// Thrift calls it from the connection's thread only.
class Connection final : public rpc::ParameterServerIf {
 public:
  Connection(ServerState& state, PendingConnections::Entry pending,
             std::shared_ptr<MessageProtocol> protocol, std::shared_ptr<MessageTransport> output);
  ~Connection() override;

  // A message had a wrong CRC: the connection is closed.
  void CountCorrupt(const std::string& what);

  // The service. ConnectionProcessor serves `exchange` itself, through Exchange.
  void hello(std::string& server_nonce, const std::string& nonce) override;
  void join(rpc::JoinReply& reply, const rpc::JoinRequest& request) override;
  void start(rpc::StartReply& reply, const rpc::StartRequest& request) override;
  void exchange(rpc::ExchangeReply& reply, const rpc::ExchangeRequest& request) override;
  // The reply's weights stay valid until the next call.
  void Exchange(const ExchangeRequest& request, ExchangeReply& reply);
  void stop(int32_t worker, int64_t generation) override;
  void finish(int32_t worker, int64_t generation) override;
  void all_finished(rpc::AllFinishedReply& reply, int32_t worker, int64_t generation,
                    int64_t until_examples) override;
  void leave(int32_t worker, int64_t generation) override;
  void init_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void push_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void pull_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void hold_pushes(rpc::HoldReply& reply, int32_t worker, int64_t generation, bool hold,
                   const std::vector<int64_t>& last_pushes) override;
  void checkpoint(rpc::CheckpointReply& reply, int32_t worker, int64_t generation, int64_t step,
                  const std::string& chief_state, int64_t committed) override;
  void restore(rpc::CheckpointReply& reply, int32_t worker, int64_t generation, int64_t step,
               int64_t shards, const std::string& earlier_run) override;
  void restored(rpc::RestoredReply& reply, int32_t worker, int64_t generation) override;
  void place_workers(int32_t worker, int64_t generation,
                     const std::vector<std::string>& states) override;
  void entries(rpc::EntriesReply& reply, int32_t worker, int64_t generation,
               int64_t first) override;
  void load(int32_t worker, int64_t generation, const std::string& entries) override;
  void stats(rpc::StatsReply& reply, int32_t worker, int64_t generation) override;

 private:
  using DenseMethod = Status (WorkerHandler::*)(const DenseRequest&, DenseReply&);

  void CountCall(const char* kind);
  // Counts the call and checks that the caller is the worker of this connection.
  void Enter(const char* kind, int32_t worker, int64_t generation);
  void Dense(const char* kind, DenseMethod method, const rpc::DenseRequest& request,
             rpc::DenseReply& reply);
  void ThrowIf(const Status& status);
  [[noreturn]] void Refuse(const std::string& message);

  ServerState& state_;
  PendingConnections::Entry pending_;
  std::optional<Nonces> nonces_;  // between hello and join
  std::shared_ptr<MessageProtocol> protocol_;
  std::shared_ptr<MessageTransport> output_;
  const char* last_kind_ = nullptr;
  MessageTransport::Bytes counted_;
  WorkerHandler handler_;
};

// Thrift's dispatch by name, except for `exchange`, whose message is read and written without the
// copies of the generated code. Its protocols are MessageProtocols.
class ConnectionProcessor final : public rpc::ParameterServerProcessor {
 public:
  explicit ConnectionProcessor(std::shared_ptr<Connection> connection)
      : ParameterServerProcessor(connection), connection_(std::move(connection)) {}

  bool process(std::shared_ptr<apache::thrift::protocol::TProtocol> in,
               std::shared_ptr<apache::thrift::protocol::TProtocol> out, void* context) override;

 protected:
  bool dispatchCall(apache::thrift::protocol::TProtocol* in,
                    apache::thrift::protocol::TProtocol* out, const std::string& name,
                    int32_t sequence, void* context) override;

 private:
  void Exchange(MessageProtocol& in, MessageProtocol& out, int32_t sequence);

  std::shared_ptr<Connection> connection_;
  ExchangeReply reply_;
};

}  // namespace millrace::ps
