// SPDX-License-Identifier: Apache-2.0
// The exchange's messages against the code that Thrift generates, and the transport below them.
#include "ps/wire/exchange_wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thrift/TApplicationException.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gen-cpp/ParameterServer.h"
#include "io/base/random.h"
#include "ps/wire/message_transport.h"

namespace millrace::ps {
namespace {

using apache::thrift::protocol::T_CALL;
using apache::thrift::protocol::T_REPLY;
using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::TMessageType;
using apache::thrift::transport::TMemoryBuffer;
using apache::thrift::transport::TSocket;
using apache::thrift::transport::TTransport;

constexpr int kLimit = 64 << 20;

std::string RandomBytes(Random& random, size_t most) {
  std::string bytes(random.Below(most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

rpc::ExchangeRequest RandomRequest(uint64_t seed, size_t most_bytes) {
  Random random(seed);
  rpc::ExchangeRequest request;
  request.worker = static_cast<int32_t>(random.Below(100));
  request.generation = static_cast<int64_t>(random.Next());
  request.sequence = static_cast<int64_t>(random.Next());
  request.step = static_cast<int64_t>(random.Next());
  request.pushes = random.Below(2) == 0;
  request.push_list = static_cast<int64_t>(random.Next());
  request.push_keys = RandomBytes(random, most_bytes);
  request.gradient = RandomBytes(random, most_bytes);
  request.rows = static_cast<int32_t>(random.Next());
  request.weight = random.Uniform();
  request.loss = -random.Uniform();
  request.state = RandomBytes(random, 100);
  request.pulls = random.Below(2) == 0;
  request.pull_list = static_cast<int64_t>(random.Next());
  request.pull_keys = RandomBytes(random, most_bytes);
  request.keep_list = random.Below(2) == 0;
  return request;
}

rpc::ExchangeReply RandomReply(uint64_t seed, size_t most_bytes) {
  Random random(seed);
  rpc::ExchangeReply reply;
  reply.outcome = static_cast<int32_t>(random.Below(3));
  reply.weights = RandomBytes(random, most_bytes);
  reply.step = static_cast<int64_t>(random.Next());
  reply.examples = static_cast<int64_t>(random.Next());
  reply.loss = random.Uniform();
  reply.weight = random.Uniform();
  reply.barrier_ns = static_cast<int64_t>(random.Next());
  reply.server_ns = static_cast<int64_t>(random.Next());
  reply.last_worker = static_cast<int32_t>(random.Below(9)) - 1;
  reply.blocked_on = RandomBytes(random, 50);
  reply.stopped = random.Below(2) == 0;
  reply.others_finished = random.Below(2) == 0;
  return reply;
}

// Its views show `from`.
ExchangeRequest RequestOf(const rpc::ExchangeRequest& from) {
  return {.worker = from.worker,
          .generation = from.generation,
          .sequence = static_cast<uint64_t>(from.sequence),
          .step = static_cast<uint64_t>(from.step),
          .pushes = from.pushes,
          .push_list = static_cast<uint64_t>(from.push_list),
          .push_keys = from.push_keys,
          .gradient = from.gradient,
          .rows = static_cast<uint32_t>(from.rows),
          .weight = from.weight,
          .loss = from.loss,
          .state = from.state,
          .pulls = from.pulls,
          .pull_list = static_cast<uint64_t>(from.pull_list),
          .pull_keys = from.pull_keys,
          .keep_list = from.keep_list};
}

rpc::ExchangeRequest ToGenerated(const ExchangeRequest& from) {
  rpc::ExchangeRequest to;
  to.worker = from.worker;
  to.generation = from.generation;
  to.sequence = static_cast<int64_t>(from.sequence);
  to.step = static_cast<int64_t>(from.step);
  to.pushes = from.pushes;
  to.push_list = static_cast<int64_t>(from.push_list);
  to.push_keys = from.push_keys;
  to.gradient = from.gradient;
  to.rows = static_cast<int32_t>(from.rows);
  to.weight = from.weight;
  to.loss = from.loss;
  to.state = from.state;
  to.pulls = from.pulls;
  to.pull_list = static_cast<int64_t>(from.pull_list);
  to.pull_keys = from.pull_keys;
  to.keep_list = from.keep_list;
  to.__isset = {};
  return to;
}

rpc::ExchangeReply ToGenerated(const ExchangeReply& from) {
  rpc::ExchangeReply to;
  to.outcome = static_cast<int32_t>(from.outcome);
  to.weights = from.weights;
  to.step = static_cast<int64_t>(from.progress.step);
  to.examples = static_cast<int64_t>(from.progress.examples);
  to.loss = from.progress.loss;
  to.weight = from.progress.weight;
  to.barrier_ns = from.barrier_ns;
  to.server_ns = from.server_ns;
  to.last_worker = from.last_worker;
  to.blocked_on = from.blocked_on;
  to.stopped = from.stopped;
  to.others_finished = from.others_finished;
  return to;
}

std::string GeneratedCall(const rpc::ExchangeRequest& request) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  rpc::ParameterServerClient(std::make_shared<TBinaryProtocol>(buffer)).send_exchange(request);
  return buffer->getBufferAsString();
}

std::string GeneratedReply(const rpc::ParameterServer_exchange_result& result) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  TBinaryProtocol out(buffer);
  out.writeMessageBegin("exchange", T_REPLY, 0);
  result.write(&out);
  out.writeMessageEnd();
  return buffer->getBufferAsString();
}

std::string GeneratedReply(const rpc::ExchangeReply& reply) {
  rpc::ParameterServer_exchange_result result;
  result.success = reply;
  result.__isset.success = true;
  return GeneratedReply(result);
}

// Gives its bytes in pieces of random size.
class DripTransport final : public apache::thrift::transport::TVirtualTransport<DripTransport> {
 public:
  DripTransport(std::string bytes, uint64_t seed, size_t most)
      : bytes_(std::move(bytes)), random_(seed), most_(most) {}
  bool isOpen() const override { return true; }
  uint32_t read(uint8_t* buf, uint32_t len) {
    const size_t size = std::min({static_cast<size_t>(len), bytes_.size() - at_,
                                  static_cast<size_t>(1 + random_.Below(most_))});
    std::copy_n(bytes_.data() + at_, size, buf);
    at_ += size;
    return static_cast<uint32_t>(size);
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
  Random random_;
  size_t most_;
};

std::shared_ptr<MessageProtocol> ProtocolOn(std::shared_ptr<TTransport> transport) {
  return std::make_shared<MessageProtocol>(std::make_shared<MessageTransport>(std::move(transport)),
                                           kLimit, 1 << 16);
}

void BeginCall(MessageProtocol& in) {
  std::string name;
  TMessageType type;
  int32_t sequence = 0;
  in.readMessageBegin(name, type, sequence);
  EXPECT_EQ(name, "exchange");
  EXPECT_EQ(type, T_CALL);
}

// The whole of the next call.
ExchangeRequest ReadCall(MessageProtocol& in) {
  BeginCall(in);
  ExchangeRequest call;
  ReadExchangeArgs(in, call);
  in.transport().readEnd();
  return call;
}

TEST(ExchangeWire, CallsAreWrittenAsThriftsOwnCodeDoes) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeRequest request = RandomRequest(seed, seed % 2 == 0 ? 50 : 20000);
    auto buffer = std::make_shared<TMemoryBuffer>();
    SendExchange(RequestOf(request), *ProtocolOn(buffer));
    EXPECT_EQ(buffer->getBufferAsString(), GeneratedCall(request));
  }
}

TEST(ExchangeWire, CallsAreReadHoweverTheirBytesCome) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const rpc::ExchangeRequest first = RandomRequest(seed, 50);
    const rpc::ExchangeRequest second = RandomRequest(seed + 1000, seed % 3 == 0 ? 200000 : 3000);
    const auto in = ProtocolOn(std::make_shared<DripTransport>(
        GeneratedCall(first) + GeneratedCall(second) + GeneratedCall(first), seed,
        seed % 2 == 0 ? 7 : 100000));
    for (const rpc::ExchangeRequest& sent : {first, second, first}) {
      const ExchangeRequest call = ReadCall(*in);
      EXPECT_EQ(ToGenerated(call), sent);  // its views are good after the message's end
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

TEST(ExchangeWire, ExceptionsOfTheServiceComeThrough) {
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

TEST(ExchangeWire, CutMessagesAreErrors) {
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

TEST(ExchangeWire, FieldsOfAnotherTypeOrNameArePassedOver) {
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

TEST(MessageTransport, LargePiecesGoOutFromTheirPlaceInTheRightOrder) {
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

TEST(MessageTransport, AMessageThatWasNotFlushedIsDroppedWhenItCloses) {
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

TEST(MessageTransport, AMessageThatCouldNotBeSentIsNotSentLater) {
  Wire wire;
  wire.a->setSendTimeout(50);
  const auto out = ProtocolOn(wire.a);
  {
    const std::string gone(8 << 20, 'x');  // more than a socket holds
    ExchangeRequest call;
    call.gradient = gone;
    EXPECT_THROW(SendExchange(call, *out), apache::thrift::transport::TTransportException);
  }
  // Behind a part of a message nothing can follow, and its bytes are gone.
  EXPECT_THROW(SendExchange({}, *out), apache::thrift::transport::TTransportException);
}

// What an unauthenticated peer can make a server hold: a message that repeats the same field.
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
  const char* place = nullptr;
  for (int i = 0; i < 4; ++i) {
    std::jthread sender([&] { SendExchange(RequestOf(request), *out); });
    const ExchangeRequest call = ReadCall(*in);
    EXPECT_EQ(ToGenerated(call), request);
    const bool is_settled = i < 2 || call.gradient.data() == place;
    EXPECT_TRUE(is_settled) << i;
    place = call.gradient.data();
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

TEST(MessageTransport, AClosedPeerIsAnErrorAndNoSignal) {
  Wire wire;
  const auto out = ProtocolOn(wire.a);
  wire.b->close();
  const rpc::ExchangeRequest request = RandomRequest(1, 100000);
  EXPECT_THROW(SendExchange(RequestOf(request), *out),
               apache::thrift::transport::TTransportException);
}

TEST(MessageTransport, SizesBeyondTheLimitAreRefusedBeforeAnythingIsRead) {
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
