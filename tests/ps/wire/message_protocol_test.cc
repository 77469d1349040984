// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_protocol.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "tests/support/exchange_messages.h"

namespace millrace::ps {
namespace {

TEST(MessageProtocol, FieldsOfAnotherTypeOrNumberAreSkipped) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  const auto out = ProtocolOn(buffer);
  out->writeMessageBegin("exchange", T_CALL, 0);
  out->writeFieldBegin("request", apache::thrift::protocol::T_STRUCT, 1);
  out->Write(3, std::string_view("not a number"));
  out->Write(99, 1.5);
  out->Write(4, uint64_t{7});
  out->writeFieldStop();
  out->writeFieldStop();
  out->transport().flush();
  const auto in = ProtocolOn(buffer);
  BeginCall(*in);
  ExchangeRequest call;
  ReadExchangeArgs(*in, call);
  EXPECT_EQ(call.sequence, 0u);
  EXPECT_EQ(call.step, 7u);
}

TEST(MessageProtocol, SizesBeyondTheLimitAreRefusedBeforeAnythingIsRead) {
  const std::string bytes = GeneratedCall(RandomRequest(7, 100000));
  auto transport =
      std::make_shared<MessageTransport>(std::make_shared<DripTransport>(bytes, 1, 1000));
  MessageProtocol in(transport, 64, 64);
  BeginCall(in);
  ExchangeRequest call;
  EXPECT_THROW(ReadExchangeArgs(in, call), apache::thrift::protocol::TProtocolException);
}

}  // namespace
}  // namespace millrace::ps
