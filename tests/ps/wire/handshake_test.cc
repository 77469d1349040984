// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/handshake.h"

#include <gtest/gtest.h>
#include <thrift/transport/TServerSocket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gen-cpp/parameter_server_constants.h"
#include "ps/wire/message_protocol.h"
#include "ps/worker/thrift_transport.h"

namespace millrace::ps {
namespace {

rpc::JoinRequest Request() {
  rpc::JoinRequest request;
  request.version = rpc::g_parameter_server_constants.kProtocolVersion;
  request.worker = 1;
  request.name = "host, pid 1";
  request.config = "mode sync\n";
  request.process = 77;
  request.attempt = 2;
  return request;
}

Nonces SomeNonces() {
  return {.worker = std::string(kNonceBytes, 'w'), .server = std::string(kNonceBytes, 's')};
}

TEST(Handshake, NoncesAreFresh) {
  const auto a = DrawNonce(), b = DrawNonce();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size(), kNonceBytes);
  EXPECT_NE(*a, *b);
}

TEST(Handshake, AProofHoldsForOneTokenOneRequestAndOnePairOfNonces) {
  const std::string proof = RequestProof("token", SomeNonces(), Request());
  EXPECT_EQ(proof.size(), 32u);
  rpc::JoinRequest proved = Request();
  proved.proof = proof;
  EXPECT_TRUE(IsSameProof(proof, RequestProof("token", SomeNonces(), proved)));
  const auto differs = [&](auto change) {
    rpc::JoinRequest request = Request();
    Nonces nonces = SomeNonces();
    change(request, nonces);
    return !IsSameProof(proof, RequestProof("token", nonces, request));
  };
  EXPECT_FALSE(IsSameProof(proof, RequestProof("tokem", SomeNonces(), Request())));
  EXPECT_FALSE(IsSameProof(proof, RequestProof("", SomeNonces(), Request())));
  EXPECT_FALSE(IsSameProof(proof, proof.substr(0, 31)));
  EXPECT_TRUE(differs([](auto& request, auto&) { --request.version; }));
  EXPECT_TRUE(differs([](auto& request, auto&) { request.worker = 0; }));
  EXPECT_TRUE(differs([](auto& request, auto&) { request.rejoin = true; }));
  EXPECT_TRUE(differs([](auto& request, auto&) { ++request.process; }));
  EXPECT_TRUE(differs([](auto& request, auto&) { ++request.attempt; }));
  EXPECT_TRUE(differs([](auto& request, auto&) { request.config += "x 1\n"; }));
  EXPECT_TRUE(differs([](auto&, Nonces& nonces) { nonces.server[0] = 'x'; }));
  EXPECT_TRUE(differs([](auto&, Nonces& nonces) { nonces.worker[31] = 'x'; }));
  EXPECT_TRUE(differs([](auto&, Nonces& nonces) { std::swap(nonces.worker, nonces.server); }));
}

// A server that accepts everybody, to learn what it can. As its proof it returns the worker's.
class Lure final : public rpc::ParameterServerNull {
 public:
  void hello(std::string& nonce, const std::string& worker_nonce) override { nonce = worker_nonce; }
  void join(rpc::JoinReply& reply, const rpc::JoinRequest& request) override {
    reply.generation = 1;
    reply.proof = request.proof;
    ++joins;
  }
  std::atomic<int> joins = 0;
};

TEST(Handshake, AWorkerDoesNotJoinAServerThatDoesNotKnowTheToken) {
  apache::thrift::transport::TServerSocket listener("127.0.0.1", 0);
  listener.listen();
  auto lure = std::make_shared<Lure>();
  std::jthread server([&] {
    const auto protocol = std::make_shared<MessageProtocol>(
        std::make_shared<MessageTransport>(listener.accept()), 1 << 20, 1 << 16);
    rpc::ParameterServerProcessor processor(lure);
    try {
      while (processor.process(protocol, protocol, nullptr)) {
      }
    } catch (const std::exception&) {
      // The worker is gone.
    }
  });
  ThriftOptions options;
  options.servers = {{.host = "127.0.0.1", .port = listener.getPort()}};
  const auto transport = MakeThriftTransport(options);
  ASSERT_TRUE(transport.ok());
  auto channel = (*transport)->Connect(0);
  ASSERT_TRUE(channel.ok());
  JoinReply reply;
  JoinRequest request;
  request.token = "secret";
  const Status joined = (*channel)->Join(request, reply);
  EXPECT_EQ(joined.code(), Code::kInvalid);
  EXPECT_EQ(joined.message(), "it does not know this job's token");
  EXPECT_EQ(reply.generation, 0u);
  EXPECT_EQ(lure->joins, 1);
  channel->reset();
}

}  // namespace
}  // namespace millrace::ps
