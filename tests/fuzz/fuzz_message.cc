// SPDX-License-Identifier: Apache-2.0
// What a server decodes: an unauthenticated peer's raw bytes through the whole service, in frames
// as they come or in frames with the right checksums, and the binary parts of a worker's messages;
// and what a worker decodes: the replies to an exchange and to the calls of the handshake. Nothing
// may crash, hang or allocate by a mere claim; decoded data is valid, and encoding it gives it
// back.
#include <thrift/transport/TBufferTransports.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gen-cpp/parameter_server_constants.h"
#include "io/base/status.h"
#include "ps/job_config.h"
#include "ps/server/connection.h"
#include "ps/wire/entry_codec.h"
#include "ps/wire/exchange_wire.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/handshake.h"
#include "ps/wire/key_codec.h"
#include "tests/support/frame.h"

namespace millrace::ps {
namespace {

using apache::thrift::transport::TMemoryBuffer;

PendingConnections::Entry Pending() {
  static PendingConnections pending({.authenticate_within = std::chrono::minutes(1)}, {});
  return pending.Add(/*socket=*/-1);
}

struct Shared {
  SharedShard shard{{}, std::chrono::milliseconds(10)};
  ServerState state{.shard = shard,
                    .token = "token",
                    .unauthenticated_limits = {.idle_ms = 1000,
                                               .message_ms = 1000,
                                               .max_string = kUnauthenticatedMaxString,
                                               .max_message = kUnauthenticatedMaxMessage}};
};

void Service(std::string_view bytes) {
  Shared shared;
  auto in = std::make_shared<MessageTransport>(
      std::make_shared<TMemoryBuffer>(reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data())),
                                      static_cast<uint32_t>(bytes.size())));
  auto out = std::make_shared<MessageTransport>(std::make_shared<TMemoryBuffer>());
  auto input = std::make_shared<MessageProtocol>(in, 64 << 10, 1 << 16);
  auto output = std::make_shared<MessageProtocol>(out, 64 << 10, 1 << 16);
  ConnectionProcessor processor(std::make_shared<Connection>(shared.state, Pending(), input, out));
  try {
    while (processor.process(input, output, nullptr)) {
    }
  } catch (const std::exception&) {
    // Invalid bytes only end the connection.
  }
  CHECK(!shared.shard.shard().joined());
}

// Messages in intact frames, which random bytes hardly ever have: each begins with its size in two
// bytes.
std::string InFrames(std::string_view bytes) {
  std::string frames;
  while (bytes.size() >= 2) {
    const size_t size = static_cast<uint8_t>(bytes[0]) | static_cast<uint8_t>(bytes[1]) << 8;
    frames += test::Framed(std::string(bytes.substr(2, size)));
    bytes.remove_prefix(std::min(2 + size, bytes.size()));
  }
  return frames;
}

// A server's replies to hello and join, as a worker reads them.
void Handshake(std::string_view bytes) {
  auto in = std::make_shared<MessageTransport>(
      std::make_shared<TMemoryBuffer>(reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data())),
                                      static_cast<uint32_t>(bytes.size())));
  rpc::ParameterServerClient client(std::make_shared<MessageProtocol>(in, 64 << 10, 1 << 16));
  Nonces nonces = {.worker = std::string(kNonceBytes, 'n'), .server = {}};
  rpc::JoinReply reply;
  try {
    client.recv_hello(nonces.server);
    client.recv_join(reply);
  } catch (const std::exception&) {
    return;  // The worker connects again.
  }
  CHECK(!IsSameProof(reply.proof, ReplyProof("token", nonces, reply)));
}

// The numbers of a block, from a worker that has joined.
void Dense(std::string_view bytes) {
  Shared shared;
  auto in = std::make_shared<MessageTransport>(std::make_shared<TMemoryBuffer>());
  auto out = std::make_shared<MessageTransport>(std::make_shared<TMemoryBuffer>());
  Connection connection(shared.state, Pending(),
                        std::make_shared<MessageProtocol>(in, 1 << 20, 1 << 16), out);
  JobConfig config;
  config.num_features = 0;
  config.dense.emplace();
  rpc::JoinRequest join;
  join.version = rpc::g_parameter_server_constants.kProtocolVersion;
  join.config = config.Fields().Encode();
  Nonces nonces = {.worker = std::string(kNonceBytes, 'n'), .server = {}};
  connection.hello(nonces.server, nonces.worker);
  join.proof = RequestProof("token", nonces, join);
  rpc::JoinReply joined;
  connection.join(joined, join);
  rpc::DenseRequest request;
  request.generation = joined.generation;
  request.values = std::string(1 + 4 * 20, '\0');
  rpc::DenseReply reply;
  connection.init_dense(reply, request);
  request.sequence = request.rows = 1;
  request.values = bytes;
  try {
    connection.push_dense(reply, request);
  } catch (const rpc::Refused&) {
    return;
  }
  CHECK(shared.shard.shard().dense()->weights(0).size() == 20);
}

// A server's reply, as a worker reads it.
void Reply(std::string_view bytes) {
  auto in = std::make_shared<MessageTransport>(
      std::make_shared<TMemoryBuffer>(reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data())),
                                      static_cast<uint32_t>(bytes.size())));
  MessageProtocol protocol(in, 64 << 10, 1 << 16);
  ExchangeReply reply;
  try {
    if (ReceiveExchangeReply(protocol, reply).ok()) CHECK(reply.weights.size() < bytes.size());
  } catch (const std::exception&) {
    // The worker connects again.
  }
}

void Keys(std::string_view bytes) {
  KeyDecoder decoder;
  PodVector<uint64_t> keys;
  const KeyBounds bounds = {.limit = 1 << 20};
  if (!decoder.Decode(bytes, bounds, keys).ok()) return;
  for (size_t i = 0; i < keys.size(); ++i) CHECK(i == 0 || keys[i] > keys[i - 1]);
  for (const uint64_t key : io::FeatureKeys(keys)) CHECK(key < bounds.limit);
  std::string again;
  EncodeKeys(keys, again);
  PodVector<uint64_t> twice;
  CHECK(decoder.Decode(again, bounds, twice).ok() && twice == keys);
}

void Floats(std::string_view bytes) {
  FloatCodec codec;
  std::vector<float> numbers(bytes.size() % 97);
  (void)codec.Decode(bytes, numbers);
}

void Entries(std::string_view bytes) {
  EntryList entries;
  if (!DecodeEntries(bytes, entries).ok()) return;
  std::string again;
  EncodeEntries(entries, again);
  EntryList twice;
  CHECK(DecodeEntries(again, twice).ok() && twice.size() == entries.size());
}

void EntriesWithFactors(std::string_view bytes) {
  constexpr size_t kWidth = 4;
  EntryList entries, twice;
  std::vector<float> factors, factors_twice;
  if (!DecodeEntries(bytes, entries, kWidth, factors).ok()) return;
  CHECK(factors.size() == entries.size() * kWidth);
  std::string again;
  EncodeEntries(entries, again, factors);
  CHECK(DecodeEntries(again, twice, kWidth, factors_twice).ok());
  CHECK(twice.size() == entries.size() && factors_twice.size() == factors.size());
}

// A push and a pull of keys with blocks of factors, from a worker that has joined: a gradient of
// another size is refused, and an accepted one is applied once.
void Factors(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const auto pull_of = static_cast<PullOf>(static_cast<uint8_t>(bytes[0]));
  const size_t key_bytes = std::min<size_t>(static_cast<uint8_t>(bytes[1]), bytes.size() - 2);
  const std::string_view keys = bytes.substr(2, key_bytes), gradient = bytes.substr(2 + key_bytes);
  Shared shared;
  WorkerHandler handler(shared.shard);
  JobConfig config;
  config.num_features = 1000;
  config.factors = {.kind = sparse::ModelKind::kFm, .factors = 4, .init = 0.1};
  JoinRequest join;
  join.config = config.Fields().Encode();
  JoinReply joined;
  CHECK(handler.Join(join, joined).ok());
  StartReply started;
  CHECK(handler.Start(true, started).ok());
  const ExchangeRequest request = {.sequence = 1,
                                   .pushes = true,
                                   .push_list = ListSignature(keys),
                                   .push_keys = keys,
                                   .gradient = gradient,
                                   .rows = 1,
                                   .pulls = true,
                                   .pull_list = ListSignature(keys),
                                   .pull_keys = keys,
                                   .pull_of = pull_of};
  for (int call = 0; call < 2; ++call) {
    ExchangeReply reply;
    const Status status = handler.Exchange(request, reply);
    CHECK(shared.shard.shard().progress().step == (status.ok() && !keys.empty() ? 1u : 0u));
    if (!status.ok()) continue;
    CHECK(keys.empty() || reply.outcome == Outcome::kDone);
  }
}

void Config(std::string_view bytes) {
  const auto fields = io::StateFields::Decode(bytes);
  if (fields.ok()) (void)JobConfig::From(*fields).ok();
}

}  // namespace
}  // namespace millrace::ps

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 11) {
    case 0:
      millrace::ps::Service(bytes);
      break;
    case 1:
      millrace::ps::Keys(bytes);
      break;
    case 2:
      millrace::ps::Floats(bytes);
      break;
    case 3:
      millrace::ps::Entries(bytes);
      break;
    case 4:
      millrace::ps::Config(bytes);
      break;
    case 5:
      millrace::ps::Dense(bytes);
      break;
    case 6:
      millrace::ps::Reply(bytes);
      break;
    case 7:
      millrace::ps::Service(millrace::ps::InFrames(bytes));
      break;
    case 9:
      millrace::ps::EntriesWithFactors(bytes);
      break;
    case 10:
      millrace::ps::Factors(bytes);
      break;
    default: {
      const std::string frames = millrace::ps::InFrames(bytes);
      millrace::ps::Handshake(frames);
      millrace::ps::Reply(frames);
    }
  }
  return 0;
}
