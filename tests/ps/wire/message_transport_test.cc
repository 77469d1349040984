// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thrift/transport/TSocket.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/exchange_messages.h"

namespace millrace::ps {
namespace {

using apache::thrift::transport::TSocket;

// A pair of connected sockets.
struct Wire {
  Wire() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a = std::make_shared<TSocket>(ends[0]);
    b = std::make_shared<TSocket>(ends[1]);
  }
  std::shared_ptr<TSocket> a, b;
};

TEST(MessageTransport, LargePiecesAreSentWithoutACopyAndInOrder) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  const auto in = ProtocolOn(wire.b);
  in->transport().Poll();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeRequest request = RandomRequest(seed, 1 << 20);  // more than a socket holds
    std::jthread sender([&] { SendExchange(RequestOf(request), *out); });
    const ExchangeRequest call = ReadCall(*in);
    EXPECT_EQ(ToGenerated(call), request);
  }
  EXPECT_EQ(in->transport().bytes().in, out->transport().bytes().out);
}

TEST(MessageTransport, UnflushedMessageIsDroppedOnClose) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  {
    const std::string gone(100000, 'x');
    out->Write(1, gone);
  }
  out->transport().close();
  char byte = 0;
  EXPECT_EQ(::recv(wire.b->getSocketFD(), &byte, 1, 0), 0);
}

TEST(MessageTransport, MessageThatFailedIsNotSentLater) {
  Wire wire;
  wire.a->setSendTimeout(50);
  const auto out = ProtocolOn(wire.a);
  {
    const std::string gone(8 << 20, 'x');  // more than a socket holds
    ExchangeRequest call;
    call.gradient = gone;
    EXPECT_THROW(SendExchange(call, *out), apache::thrift::transport::TTransportException);
  }
  // No message can follow a part of another one, and the bytes of the rest are freed.
  EXPECT_THROW(SendExchange({}, *out), apache::thrift::transport::TTransportException);
}

// An unauthenticated peer could otherwise fill the server's memory by repeating a field.
TEST(MessageTransport, MemoryOfAMessageIsBounded) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  const auto out = ProtocolOn(buffer);
  out->writeFieldBegin("request", apache::thrift::protocol::T_STRUCT, 1);
  for (int i = 0; i < 100; ++i) {
    out->Write(7, std::string_view("x"));
    for (int j = 0; j < 500; ++j) out->Write(99, int64_t{j});
  }
  out->transport().flush();
  const auto in = ProtocolOn(buffer);
  in->transport().SetLimits(
      {.max_string = kUnauthenticatedMaxString, .max_message = kUnauthenticatedMaxMessage});
  ExchangeRequest call;
  EXPECT_THROW(ReadExchangeArgs(*in, call), apache::thrift::transport::TTransportException);
  EXPECT_LT(in->transport().bytes().in, 2 * kUnauthenticatedMaxMessage);
}

TEST(MessageTransport, LargeMessagesUseOneBufferFromTheSecondOn) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  const auto in = ProtocolOn(wire.b);
  rpc::ExchangeRequest request = RandomRequest(1, 10);
  request.gradient.assign(1 << 20, 'g');
  request.pull_keys.assign(300000, 'k');
  const char* buffer = nullptr;
  for (int i = 0; i < 4; ++i) {
    std::jthread sender([&] { SendExchange(RequestOf(request), *out); });
    const ExchangeRequest call = ReadCall(*in);
    EXPECT_EQ(ToGenerated(call), request);
    const bool is_reused = i < 2 || call.gradient.data() == buffer;
    EXPECT_TRUE(is_reused) << i;
    buffer = call.gradient.data();
  }
}

// Thrift's own limit is 100 MB for all strings of a message together.
TEST(MessageTransport, StringsMayBeLargeTogether) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  const auto in = ProtocolOn(wire.b);
  in->transport().SetLimits({});
  rpc::ExchangeRequest request = RandomRequest(1, 10);
  request.push_keys.assign(40 << 20, 'p');
  request.gradient.assign(40 << 20, 'g');
  request.pull_keys.assign(40 << 20, 'k');
  std::jthread sender([&] { SendExchange(RequestOf(request), *out); });
  const ExchangeRequest call = ReadCall(*in);
  EXPECT_TRUE(ToGenerated(call) == request);
}

TEST(MessageTransport, ClosedPeerIsAnErrorWithoutASignal) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  wire.b->close();
  const rpc::ExchangeRequest request = RandomRequest(1, 100000);
  EXPECT_THROW(SendExchange(RequestOf(request), *out),
               apache::thrift::transport::TTransportException);
}

TEST(Poller, EachTimeoutDoublesTheWaitsWithoutPolling) {
  Wire wire;
  Poller poller;
  for (uint32_t round = 1; round <= 4; ++round) {
    poller.Await(wire.b->getSocketFD());  // returns although no bytes arrive
    const uint32_t skips = (1u << round) - 1;
    EXPECT_EQ(poller.skips(), skips);
    for (uint32_t i = 0; i < skips; ++i) poller.Await(wire.b->getSocketFD());
    EXPECT_EQ(poller.skips(), 0u);
  }
  ASSERT_EQ(::send(wire.a->getSocketFD(), "x", 1, 0), 1);
  poller.Await(wire.b->getSocketFD());
  EXPECT_EQ(poller.skips(), 0u) << "bytes were ready";
  wire.a->close();
  poller.Await(wire.b->getSocketFD());
  EXPECT_EQ(poller.skips(), 0u) << "the connection was closed";
}

}  // namespace
}  // namespace millrace::ps
