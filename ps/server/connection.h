// The service as one connection sees it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "gen-cpp/ParameterServer.h"
#include "ps/server/exchange_job.h"
#include "ps/server/model_pieces.h"
#include "ps/server/server_state.h"
#include "ps/server/strangers.h"
#include "ps/wire/exchange_wire.h"
#include "ps/wire/message_protocol.h"

namespace millrace::ps {

// Thrift calls it from the connection's thread alone. What a caller may not do costs it the
// connection.
class Connection final : public rpc::ParameterServerIf {
 public:
  Connection(ServerState& state, Strangers::Visit visit, std::shared_ptr<MessageProtocol> protocol,
             std::shared_ptr<MessageTransport> output);
  ~Connection() override;

  void join(rpc::JoinReply& reply, const rpc::JoinRequest& request) override;
  void start(rpc::StartReply& reply, const rpc::StartRequest& request) override;
  // As Thrift's own code would call it; exchange_processor.h calls the other one.
  void exchange(rpc::ExchangeReply& reply, const rpc::ExchangeRequest& request) override;
  // The reply's weights stay valid until the next call.
  void Exchange(const ExchangeCall& call, ExchangeReply& reply);
  // After that answer was sent: what the worker should not have to wait for. Throws Refused where
  // the connection should end.
  void LookAhead(const ExchangeRequest& request);
  void stop(int32_t worker, int64_t generation) override;
  void finish(int32_t worker, int64_t generation) override;
  void drained(std::string& waiting, int32_t worker, int64_t generation) override;
  void leave(int32_t worker, int64_t generation) override;
  void init_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void push_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void pull_dense(rpc::DenseReply& reply, const rpc::DenseRequest& request) override;
  void checkpoint(rpc::CheckpointReply& reply, int32_t worker, int64_t generation, int64_t step,
                  const std::string& chief_state) override;
  void restore(rpc::CheckpointReply& reply, int32_t worker, int64_t generation,
               int64_t step) override;
  void chief_state(std::string& state, int32_t worker, int64_t generation) override;
  void entries(rpc::EntriesReply& reply, int32_t worker, int64_t generation,
               int64_t first) override;
  void load(int32_t worker, int64_t generation, const std::string& entries) override;
  void stats(rpc::StatsReply& reply, int32_t worker, int64_t generation) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void CountLastCall(const char* kind);
  Lock Enter(const char* kind, int32_t worker, int64_t generation);
  Status DecodeDense(Lock& lock, const rpc::DenseRequest& request);
  Lock EnterDense(const char* kind, const rpc::DenseRequest& request, rpc::DenseReply& reply);
  // True when the work is done; false: the same call is to be made again.
  bool LongWork(Lock& lock, uint64_t id, const std::function<Status(Shard&)>& work);
  void Answer(Lock& lock, const ExchangeRequest& request, ExchangeReply& reply);
  void ThrowIf(const Status& status);
  [[noreturn]] void Refuse(const std::string& message);

  ServerState& state_;
  Strangers::Visit visit_;
  std::shared_ptr<MessageProtocol> protocol_;
  std::shared_ptr<MessageTransport> output_;
  const char* last_kind_ = nullptr;
  MessageTransport::Bytes counted_;
  bool joined_ = false;
  size_t worker_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<ExchangeJob> job_;
  int64_t in_the_way_ns_ = 0;  // of the next exchange: looking ahead
  ModelPieces model_;
  FloatCodec floats_;
  PodVector<float> dense_;
};

}  // namespace millrace::ps
