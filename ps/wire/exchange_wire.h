// SPDX-License-Identifier: Apache-2.0
// The call `exchange` of parameter_server.thrift, byte for byte as the code that Thrift generates
// writes it, but without that code's copies of keys and numbers, which are its main cost.
#pragma once

#include <cstdint>

#include "io/base/status.h"
#include "ps/wire/message_protocol.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// These functions throw Thrift's exceptions for invalid bytes and broken connections.

// The worker's side: the whole message, sent.
void SendExchange(const ExchangeRequest& request, MessageProtocol& out);
// The whole reply; also throws the exceptions of the service. An error if the outcome is unknown.
// Views stay valid until the next message is read.
Status ReceiveExchangeReply(MessageProtocol& in, ExchangeReply& reply);

// The server's side, between the message's beginning and its end.
void ReadExchangeArgs(MessageProtocol& in, ExchangeRequest& request);
void WriteExchangeResult(const ExchangeReply& reply, MessageProtocol& out);

}  // namespace millrace::ps
