// The call `exchange` of parameter_server.thrift, byte for byte as the code that Thrift generates
// has it, but without that code's copies of keys and numbers, which cost more than all else in it.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "ps/wire/message_protocol.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

struct ExchangeCall {
  int32_t worker = 0;
  int64_t generation = 0;
  ExchangeRequest request;
};

// These throw what Thrift throws, with bad bytes and broken connections.

// The worker's side: the whole message, sent.
void SendExchangeCall(const ExchangeCall& call, MessageProtocol& out);
// The whole answer; throws the exceptions of the service as well. An error if its outcome is none
// that is known. Views stay valid until the next message is read.
Status ReceiveExchangeReply(MessageProtocol& in, ExchangeReply& reply);

// The server's side, between the message's beginning and its end.
void ReadExchangeArgs(MessageProtocol& in, ExchangeCall& call);
void WriteExchangeResult(const ExchangeReply& reply, MessageProtocol& out);

}  // namespace millrace::ps
