// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thrift/transport/TSocket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/exchange_messages.h"

namespace millrace::ps {
namespace {

using apache::thrift::transport::TSocket;
using apache::thrift::transport::TTransportException;
using test::Framed;

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

// What an exception of the transport says; empty if there is none.
template <typename Read>
std::string ErrorOf(Read read, TTransportException::TTransportExceptionType type) {
  try {
    read();
  } catch (const TTransportException& error) {
    EXPECT_EQ(error.getType(), type) << error.what();
    return error.what();
  }
  return "";
}

// Both the exchange without copies and the code that Thrift generates.
TEST(MessageTransport, EveryFlippedBitIsAnErrorThatNamesExpectedAndFound) {
  const auto receive_exchange = [](const std::shared_ptr<MessageProtocol>& in) {
    ExchangeReply reply;
    (void)ReceiveExchangeReply(*in, reply);
  };
  const auto receive_stats = [](const std::shared_ptr<MessageProtocol>& in) {
    rpc::StatsReply reply;
    rpc::ParameterServerClient(in).recv_stats(reply);
  };
  auto buffer = std::make_shared<TMemoryBuffer>();
  TBinaryProtocol out(buffer);
  out.writeMessageBegin("stats", T_REPLY, 0);
  rpc::ParameterServer_stats_result result;
  result.success.step = 7;
  result.__isset.success = true;
  result.write(&out);
  const std::string stats = Framed(buffer->getBufferAsString());
  const std::string exchange = GeneratedReply(RandomReply(3, 20));
  ASSERT_NO_THROW(receive_stats(ProtocolOn(std::make_shared<DripTransport>(stats, 1, 50))));
  ASSERT_NO_THROW(receive_exchange(ProtocolOn(std::make_shared<DripTransport>(exchange, 1, 50))));
  for (size_t bit = 0; bit < 8 * std::max(stats.size(), exchange.size()); ++bit) {
    SCOPED_TRACE(bit);
    const auto flipped = [&](std::string bytes) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      return ProtocolOn(std::make_shared<DripTransport>(bytes, bit, 50));
    };
    constexpr auto kCorrupt = TTransportException::CORRUPTED_DATA;
    const char* const what = bit < 8 * 12 ? "length" : "message";
    if (bit < 8 * stats.size()) {
      const std::string error = ErrorOf([&] { receive_stats(flipped(stats)); }, kCorrupt);
      EXPECT_TRUE(error.find(what) != error.npos && error.find("expected CRC") != error.npos &&
                  error.find("found") != error.npos)
          << error;
    }
    if (bit < 8 * exchange.size()) {
      const std::string error = ErrorOf([&] { receive_exchange(flipped(exchange)); }, kCorrupt);
      EXPECT_NE(error.find(what), error.npos) << error;
    }
  }
}

TEST(MessageTransport, ACorruptMessageNamesThePeerAndClosesTheConnection) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, generic, size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, generic, &size), 0);
  const int port = ntohs(address.sin_port);
  auto socket = std::make_shared<TSocket>("127.0.0.1", port);
  socket->open();
  const int peer = ::accept(listener, nullptr, nullptr);
  std::string bytes = GeneratedReply(RandomReply(3, 20));
  bytes[40] ^= 4;
  ASSERT_EQ(::send(peer, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  const auto in = ProtocolOn(socket);
  ExchangeReply reply;
  const std::string error =
      ErrorOf([&] { (void)ReceiveExchangeReply(*in, reply); }, TTransportException::CORRUPTED_DATA);
  EXPECT_NE(error.find("from 127.0.0.1:" + std::to_string(port) + ": message"), error.npos)
      << error;
  EXPECT_FALSE(in->transport().isOpen());
  char byte = 0;
  EXPECT_EQ(::recv(peer, &byte, 1, 0), 0);
  ::close(peer);
  ::close(listener);
}

// With intact checksums: what a peer of another kind could send.
TEST(MessageTransport, FramesThatAreNotOneMessageAreErrors) {
  const std::string call = GeneratedCall(RandomRequest(3, 20));
  const std::string body = call.substr(12, call.size() - 16);
  const auto read = [](const std::string& frame) {
    return ErrorOf([&] { ReadCall(*ProtocolOn(std::make_shared<DripTransport>(frame, 1, 9))); },
                   TTransportException::UNKNOWN);
  };
  EXPECT_EQ(read(Framed(body)), "");
  EXPECT_EQ(read(Framed(body + "xyz")),
            "a message: expected its end, found 3 more bytes in its frame");
  for (size_t size = 1; size < body.size(); ++size) {
    const std::string error = read(Framed(body.substr(0, size)));
    EXPECT_EQ(error.rfind("a field of a message: expected ", 0), 0u) << size << error;
  }
  const auto empty = [&] {
    ReadCall(*ProtocolOn(std::make_shared<DripTransport>(Framed(""), 1, 9)));
  };
  EXPECT_EQ(ErrorOf(empty, TTransportException::BAD_ARGS),
            "a message: expected 1 to 1073741824 bytes, found 0");
}

// A length with a good checksum still costs nothing before its bytes arrive.
TEST(MessageTransport, ALengthBeyondTheLimitIsRefusedAndOneWithinItAllocatesNothing) {
  const auto read = [](uint64_t length) {
    return [bytes = test::FrameHeader(length) + "abc"] {
      ReadCall(*ProtocolOn(std::make_shared<DripTransport>(bytes, 1, 100)));
    };
  };
  EXPECT_EQ(ErrorOf(read(uint64_t{1} << 62), TTransportException::BAD_ARGS),
            "a message: expected 1 to 1073741824 bytes, found 4611686018427387904");
  rusage before = {}, after = {};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_NE(ErrorOf(read(1 << 30), TTransportException::END_OF_FILE), "");
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10);
}

}  // namespace
}  // namespace millrace::ps
