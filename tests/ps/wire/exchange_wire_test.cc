// SPDX-License-Identifier: Apache-2.0
// The exchange's messages against the code that Thrift generates.
#include "ps/wire/exchange_wire.h"

#include <gtest/gtest.h>
#include <thrift/TApplicationException.h>

#include <memory>
#include <string>

#include "tests/support/exchange_messages.h"

namespace millrace::ps {
namespace {

TEST(ExchangeWire, CallsAreWrittenAsThriftsOwnCodeDoes) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeRequest request = RandomRequest(seed, seed % 2 == 0 ? 50 : 20000);
    auto buffer = std::make_shared<TMemoryBuffer>();
    SendExchange(RequestOf(request), *ProtocolOn(buffer));
    EXPECT_EQ(buffer->getBufferAsString(), GeneratedCall(request));
  }
}

TEST(ExchangeWire, CallsAreReadFromPiecesOfAnySize) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeRequest first = RandomRequest(seed, 50);
    const rpc::ExchangeRequest second = RandomRequest(seed + 1000, seed % 3 == 0 ? 200000 : 3000);
    const auto in = ProtocolOn(std::make_shared<DripTransport>(
        GeneratedCall(first) + GeneratedCall(second) + GeneratedCall(first), seed,
        seed % 2 == 0 ? 7 : 100000));
    for (const rpc::ExchangeRequest& sent : {first, second, first}) {
      const ExchangeRequest call = ReadCall(*in);
      EXPECT_EQ(ToGenerated(call), sent);  // its views stay valid after the end of the message
    }
    EXPECT_FALSE(in->transport().peek());
  }
}

TEST(ExchangeWire, RepliesAreWrittenAndReadAsThriftsOwnCodeDoes) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeReply sent = RandomReply(seed, seed % 3 == 0 ? 200000 : 3000);
    const std::string bytes = GeneratedReply(sent);
    ExchangeReply reply;
    const auto in = ProtocolOn(std::make_shared<DripTransport>(bytes, seed, 5000));
    ASSERT_TRUE(ReceiveExchangeReply(*in, reply).ok());
    rpc::ExchangeReply received = ToGenerated(reply);
    received.__isset = sent.__isset;
    EXPECT_EQ(received, sent);

    auto buffer = std::make_shared<TMemoryBuffer>();
    const auto out = ProtocolOn(buffer);
    out->writeMessageBegin("exchange", T_REPLY, 0);
    WriteExchangeResult(reply, *out);
    out->transport().flush();
    EXPECT_EQ(buffer->getBufferAsString(), bytes);
  }
}

TEST(ExchangeWire, ExceptionsOfTheServiceAreRethrown) {
  rpc::ParameterServer_exchange_result refused, failed;
  refused.refused.message = "no";
  refused.__isset.refused = true;
  failed.failed.message = "broken";
  failed.__isset.failed = true;
  ExchangeReply reply;
  const auto receive = [&](const std::string& bytes) {
    return ReceiveExchangeReply(*ProtocolOn(std::make_shared<DripTransport>(bytes, 1, 10)), reply);
  };
  EXPECT_THROW((void)receive(GeneratedReply(refused)), rpc::Refused);
  EXPECT_THROW((void)receive(GeneratedReply(failed)), rpc::JobFailed);
  EXPECT_THROW((void)receive(GeneratedReply(rpc::ParameterServer_exchange_result())),
               apache::thrift::TApplicationException);
  rpc::ExchangeReply unknown = RandomReply(1, 10);
  unknown.outcome = 3;
  EXPECT_EQ(receive(GeneratedReply(unknown)).message(),
            "the server's reply: expected an outcome from 0 to 2, found 3");
}

TEST(ExchangeWire, TruncatedMessagesAreErrors) {
  const std::string call_bytes = GeneratedCall(RandomRequest(3, 100));
  const std::string reply_bytes = GeneratedReply(RandomReply(3, 100));
  for (size_t size = 0; size < call_bytes.size(); ++size) {
    const auto in = ProtocolOn(std::make_shared<DripTransport>(call_bytes.substr(0, size), 1, 10));
    EXPECT_ANY_THROW({
      BeginCall(*in);
      ExchangeRequest call;
      ReadExchangeArgs(*in, call);
    }) << size;
  }
  for (size_t size = 0; size < reply_bytes.size(); ++size) {
    const auto in = ProtocolOn(std::make_shared<DripTransport>(reply_bytes.substr(0, size), 1, 10));
    ExchangeReply reply;
    EXPECT_ANY_THROW((void)ReceiveExchangeReply(*in, reply)) << size;
  }
}

}  // namespace
}  // namespace millrace::ps
