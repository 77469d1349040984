// SPDX-License-Identifier: Apache-2.0
// Random exchanges, as the code that Thrift generates writes them, and how to read them.
#pragma once

#include <gtest/gtest.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "gen-cpp/ParameterServer.h"
#include "io/base/random.h"
#include "ps/wire/exchange_wire.h"
#include "ps/wire/message_transport.h"
#include "tests/support/frame.h"

namespace millrace::ps {

using apache::thrift::protocol::T_CALL;
using apache::thrift::protocol::T_REPLY;
using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::protocol::TMessageType;
using apache::thrift::transport::TMemoryBuffer;
using apache::thrift::transport::TTransport;

constexpr int kLimit = 64 << 20;

inline std::string RandomBytes(Random& random, size_t most) {
  std::string bytes(random.Below(most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

inline rpc::ExchangeRequest RandomRequest(uint64_t seed, size_t most_bytes) {
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
  request.pull_of = static_cast<int32_t>(random.Below(3));
  return request;
}

inline rpc::ExchangeReply RandomReply(uint64_t seed, size_t most_bytes) {
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

// Its views point into `from`.
inline ExchangeRequest RequestOf(const rpc::ExchangeRequest& from) {
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
          .keep_list = from.keep_list,
          .pull_of = static_cast<PullOf>(from.pull_of)};
}

inline rpc::ExchangeRequest ToGenerated(const ExchangeRequest& from) {
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
  to.pull_of = static_cast<int32_t>(from.pull_of);
  to.__isset = {};
  return to;
}

inline rpc::ExchangeReply ToGenerated(const ExchangeReply& from) {
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

inline std::string GeneratedCall(const rpc::ExchangeRequest& request) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  rpc::ParameterServerClient(std::make_shared<TBinaryProtocol>(buffer)).send_exchange(request);
  return test::Framed(buffer->getBufferAsString());
}

inline std::string GeneratedReply(const rpc::ParameterServer_exchange_result& result) {
  auto buffer = std::make_shared<TMemoryBuffer>();
  TBinaryProtocol out(buffer);
  out.writeMessageBegin("exchange", T_REPLY, 0);
  result.write(&out);
  out.writeMessageEnd();
  return test::Framed(buffer->getBufferAsString());
}

inline std::string GeneratedReply(const rpc::ExchangeReply& reply) {
  rpc::ParameterServer_exchange_result result;
  result.success = reply;
  result.__isset.success = true;
  return GeneratedReply(result);
}

// Returns its bytes in pieces of random size.
class DripTransport final : public apache::thrift::transport::TVirtualTransport<DripTransport> {
 public:
  DripTransport(std::string bytes, uint64_t seed, size_t most)
      : bytes_(std::move(bytes)), random_(seed), most_(most) {}
  bool isOpen() const override { return true; }
  void close() override {}
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

inline std::shared_ptr<MessageProtocol> ProtocolOn(std::shared_ptr<TTransport> transport) {
  return std::make_shared<MessageProtocol>(std::make_shared<MessageTransport>(std::move(transport)),
                                           kLimit, 1 << 16);
}

inline void BeginCall(MessageProtocol& in) {
  std::string name;
  TMessageType type;
  int32_t sequence = 0;
  in.readMessageBegin(name, type, sequence);
  EXPECT_EQ(name, "exchange");
  EXPECT_EQ(type, T_CALL);
}

// Reads the next call to its end.
inline ExchangeRequest ReadCall(MessageProtocol& in) {
  BeginCall(in);
  ExchangeRequest call;
  ReadExchangeArgs(in, call);
  in.transport().readEnd();
  return call;
}

}  // namespace millrace::ps
