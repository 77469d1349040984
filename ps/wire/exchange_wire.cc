// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/exchange_wire.h"

#include <thrift/TApplicationException.h>

#include <optional>
#include <string>

#include "gen-cpp/ParameterServer.h"

namespace millrace::ps {
namespace {

using apache::thrift::TApplicationException;
using apache::thrift::protocol::T_CALL;
using apache::thrift::protocol::T_EXCEPTION;
using apache::thrift::protocol::T_REPLY;
using apache::thrift::protocol::T_STRUCT;
using apache::thrift::protocol::TMessageType;
using Type = MessageProtocol::Type;

// Fields of the structs around the arguments and the result.
constexpr int16_t kRequest = 1;
constexpr int16_t kSuccess = 0, kRefused = 1, kFailed = 2;

void ReadRequest(MessageProtocol& in, ExchangeRequest& request) {
  int32_t pull_of = 0;
  in.ReadFields([&](int16_t id, Type type) {
    switch (id) {
      case 1:
        return in.Read(type, request.worker);
      case 2:
        return in.Read(type, request.generation);
      case 3:
        return in.Read(type, request.sequence);
      case 4:
        return in.Read(type, request.step);
      case 5:
        return in.Read(type, request.pushes);
      case 6:
        return in.Read(type, request.push_list);
      case 7:
        return in.Read(type, request.push_keys);
      case 8:
        return in.Read(type, request.gradient);
      case 9:
        return in.Read(type, request.rows);
      case 10:
        return in.Read(type, request.weight);
      case 11:
        return in.Read(type, request.loss);
      case 12:
        return in.Read(type, request.state);
      case 13:
        return in.Read(type, request.pulls);
      case 14:
        return in.Read(type, request.pull_list);
      case 15:
        return in.Read(type, request.pull_keys);
      case 16:
        return in.Read(type, request.keep_list);
      case 17:
        return in.Read(type, pull_of);
      default:
        return false;
    }
  });
  request.pull_of = static_cast<PullOf>(pull_of);  // checked by ExchangeHandler
}

void WriteRequest(const ExchangeRequest& request, MessageProtocol& out) {
  out.Write(1, request.worker);
  out.Write(2, request.generation);
  out.Write(3, request.sequence);
  out.Write(4, request.step);
  out.Write(5, request.pushes);
  out.Write(6, request.push_list);
  out.Write(7, request.push_keys);
  out.Write(8, request.gradient);
  out.Write(9, request.rows);
  out.Write(10, request.weight);
  out.Write(11, request.loss);
  out.Write(12, request.state);
  out.Write(13, request.pulls);
  out.Write(14, request.pull_list);
  out.Write(15, request.pull_keys);
  out.Write(16, request.keep_list);
  out.Write(17, static_cast<int32_t>(request.pull_of));
  out.writeFieldStop();
}

void ReadReply(MessageProtocol& in, ExchangeReply& reply, int32_t& outcome) {
  in.ReadFields([&](int16_t id, Type type) {
    switch (id) {
      case 1:
        return in.Read(type, outcome);
      case 2:
        return in.Read(type, reply.weights);
      case 3:
        return in.Read(type, reply.progress.step);
      case 4:
        return in.Read(type, reply.progress.examples);
      case 5:
        return in.Read(type, reply.progress.loss);
      case 6:
        return in.Read(type, reply.progress.weight);
      case 7:
        return in.Read(type, reply.barrier_ns);
      case 8:
        return in.Read(type, reply.server_ns);
      case 9:
        return in.Read(type, reply.last_worker);
      case 10:
        return in.Read(type, reply.blocked_on);
      case 11:
        return in.Read(type, reply.stopped);
      case 12:
        return in.Read(type, reply.others_finished);
      default:
        return false;
    }
  });
}

// Throws if the message is not a reply to the call.
void BeginReply(MessageProtocol& in) {
  std::string name;
  TMessageType type;
  int32_t sequence = 0;
  in.readMessageBegin(name, type, sequence);
  if (type == T_EXCEPTION) {
    TApplicationException error;
    error.read(&in);
    in.transport().readEnd();
    throw error;
  }
  if (type != T_REPLY) throw TApplicationException(TApplicationException::INVALID_MESSAGE_TYPE);
  if (name != "exchange") throw TApplicationException(TApplicationException::WRONG_METHOD_NAME);
}

template <typename Exception>
bool ReadException(MessageProtocol& in, Type type, std::optional<Exception>& exception) {
  if (type != T_STRUCT) return false;
  exception.emplace().read(&in);
  return true;
}

}  // namespace

void SendExchange(const ExchangeRequest& request, MessageProtocol& out) {
  out.writeMessageBegin("exchange", T_CALL, 0);
  out.writeFieldBegin("request", T_STRUCT, kRequest);
  WriteRequest(request, out);
  out.writeFieldStop();
  out.transport().flush();
}

Status ReceiveExchangeReply(MessageProtocol& in, ExchangeReply& reply) {
  BeginReply(in);
  reply = {};
  bool replied = false;
  int32_t outcome = 0;
  std::optional<rpc::Refused> refused;
  std::optional<rpc::JobFailed> failed;
  in.ReadFields([&](int16_t id, Type type) {
    if (id == kRefused) return ReadException(in, type, refused);
    if (id == kFailed) return ReadException(in, type, failed);
    if (id != kSuccess || type != T_STRUCT) return false;
    ReadReply(in, reply, outcome);
    return replied = true;
  });
  in.transport().readEnd();
  if (refused) throw *refused;
  if (failed) throw *failed;
  if (!replied) throw TApplicationException(TApplicationException::MISSING_RESULT);
  if (outcome < 0 || outcome > static_cast<int32_t>(Outcome::kUnknownList)) {
    return Invalid("the server's reply: expected an outcome from 0 to 2, found " +
                   std::to_string(outcome));
  }
  reply.outcome = static_cast<Outcome>(outcome);
  return {};
}

void ReadExchangeArgs(MessageProtocol& in, ExchangeRequest& request) {
  request = {};
  in.ReadFields([&](int16_t id, Type type) {
    if (id != kRequest || type != T_STRUCT) return false;
    ReadRequest(in, request);
    return true;
  });
}

void WriteExchangeResult(const ExchangeReply& reply, MessageProtocol& out) {
  out.writeFieldBegin("success", T_STRUCT, kSuccess);
  out.Write(1, static_cast<int32_t>(reply.outcome));
  out.Write(2, reply.weights);
  out.Write(3, reply.progress.step);
  out.Write(4, reply.progress.examples);
  out.Write(5, reply.progress.loss);
  out.Write(6, reply.progress.weight);
  out.Write(7, reply.barrier_ns);
  out.Write(8, reply.server_ns);
  out.Write(9, reply.last_worker);
  out.Write(10, reply.blocked_on);
  out.Write(11, reply.stopped);
  out.Write(12, reply.others_finished);
  out.writeFieldStop();
  out.writeFieldStop();
}

}  // namespace millrace::ps
