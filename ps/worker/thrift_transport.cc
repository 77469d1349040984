// SPDX-License-Identifier: Apache-2.0
#include "ps/worker/thrift_transport.h"

#include <thrift/transport/TSocket.h>

#include <algorithm>
#include <new>
#include <utility>

#include "gen-cpp/ParameterServer.h"
#include "ps/wire/exchange_wire.h"
#include "ps/wire/guarded_socket.h"
#include "ps/wire/handshake.h"
#include "ps/wire/message_protocol.h"
#include "ps/wire/rpc_messages.h"

namespace millrace::ps {
namespace {

using apache::thrift::protocol::TProtocolException;
using apache::thrift::transport::TSocket;
using apache::thrift::transport::TSSLException;
using apache::thrift::transport::TSSLSocketFactory;
using apache::thrift::transport::TTransportException;

constexpr int kMaxString = 256 << 20;
constexpr int kMaxContainer = 1 << 20;
// A server that handles the part of a message beyond kOrdinaryBytes more slowly than this counts as
// gone: it unpacks, applies and replies, on a machine with other work.
constexpr size_t kSlowestBytesPerSecond = 4 << 20;
constexpr size_t kOrdinaryBytes = 8 << 20;

// A certificate that is not accepted now will not be accepted later either; anything else, such as
// a connection that was cut, may pass.
Status TlsError(const std::string& what) {
  const auto has = [&](const char* words) { return what.find(words) != std::string::npos; };
  if (has("verify failed"))
    return Invalid("the server's certificate has expired or is not of tls_ca (" + what + ")");
  if (has("authorize"))
    return Invalid("the server's certificate does not name this host (" + what + ")");
  if (has("alert") && (has("certificate") || has("unknown ca")))
    return Invalid("the server does not accept the certificate of tls_cert (" + what + ")");
  return Status(Code::kIo, what);
}

class ThriftChannel final : public Channel {
 public:
  ThriftChannel(const std::shared_ptr<TSocket>& socket, const ThriftOptions& options)
      : socket_(socket),
        tls_(options.tls.enabled()),
        call_ms_(options.call_ms),
        transport_(std::make_shared<MessageTransport>(socket)),
        protocol_(std::make_shared<MessageProtocol>(transport_, kMaxString, kMaxContainer)),
        client_(protocol_) {}
  ~ThriftChannel() override {
    (void)Call([&] { transport_->close(); });
  }

  Status Join(const JoinRequest& request, JoinReply& reply) override {
    rpc::JoinRequest in;
    ToRpc(request, in);
    worker_ = in.worker;
    rpc::JoinReply out;
    Nonces nonces;
    ASSIGN_OR_RETURN(nonces.worker, DrawNonce());
    const Status joined = Call([&] {
      client_.hello(nonces.server, nonces.worker);
      if (nonces.server.size() != kNonceBytes) {
        throw TProtocolException(TProtocolException::INVALID_DATA, "a nonce of another size");
      }
      in.proof = RequestProof(request.token, nonces, in);
      client_.join(out, in);
    });
    if (joined.code() == Code::kIo && !tls_) {
      return Status(Code::kIo,
                    joined.message() + "; a server with TLS does so to a worker without it");
    }
    RETURN_IF_ERROR(joined);
    if (!IsSameProof(out.proof, ReplyProof(request.token, nonces, out))) {
      return Invalid("it does not know this job's token");
    }
    generation_ = out.generation;
    FromRpc(out, reply);
    return {};
  }

  Status Start(bool open, StartReply& reply) override {
    rpc::StartRequest in;
    in.worker = worker_;
    in.generation = generation_;
    in.open = open;
    rpc::StartReply out;
    RETURN_IF_ERROR(Call([&] { client_.start(out, in); }));
    FromRpc(out, reply);
    return {};
  }

  Status SendExchange(const ExchangeRequest& request) override {
    // A key takes at least one byte here, and its weight four in the reply.
    AllowFor(request.gradient.size() + request.push_keys.size() + 5 * request.pull_keys.size());
    ExchangeRequest mine = request;
    mine.worker = worker_;
    mine.generation = generation_;
    return Call([&] { ps::SendExchange(mine, *protocol_); });
  }

  Status ReceiveExchange(ExchangeReply& reply) override {
    Status known;
    RETURN_IF_ERROR(Call([&] { known = ReceiveExchangeReply(*protocol_, reply); }));
    return known;
  }

  Status Stop() override {
    return Call([&] { client_.stop(worker_, generation_); });
  }
  Status Finish() override {
    return Call([&] { client_.finish(worker_, generation_); });
  }
  Status AllFinished(uint64_t until_examples, AllFinishedReply& reply) override {
    rpc::AllFinishedReply out;
    RETURN_IF_ERROR(Call([&] {
      client_.all_finished(out, worker_, generation_, static_cast<int64_t>(until_examples));
    }));
    FromRpc(out, reply);
    return {};
  }
  Status Leave() override {
    return Call([&] { client_.leave(worker_, generation_); });
  }
  Status HoldPushes(const HoldRequest& request, HoldReply& reply) override {
    rpc::HoldReply out;
    RETURN_IF_ERROR(Call([&] {
      client_.hold_pushes(out, worker_, generation_, request.hold,
                          {request.last_pushes.begin(), request.last_pushes.end()});
    }));
    FromRpc(out, reply);
    return {};
  }
  Status Checkpoint(const CheckpointRequest& request, bool& done) override {
    rpc::CheckpointReply out;
    RETURN_IF_ERROR(Call([&] {
      client_.checkpoint(out, worker_, generation_, static_cast<int64_t>(request.id),
                         request.chief_state,
                         request.committed ? static_cast<int64_t>(*request.committed) : -1);
    }));
    done = out.done;
    return {};
  }
  Status Restore(const RestoreRequest& request, bool& done) override {
    rpc::CheckpointReply out;
    RETURN_IF_ERROR(Call([&] {
      client_.restore(out, worker_, generation_, static_cast<int64_t>(request.id),
                      static_cast<int64_t>(request.shards), request.earlier_run);
    }));
    done = out.done;
    return {};
  }
  Status Restored(RestoredReply& reply) override {
    rpc::RestoredReply out;
    RETURN_IF_ERROR(Call([&] { client_.restored(out, worker_, generation_); }));
    FromRpc(out, reply);
    return {};
  }
  Status PlaceWorkers(const std::vector<std::string>& states) override {
    return Call([&] { client_.place_workers(worker_, generation_, states); });
  }
  Status Entries(int64_t first, EntriesReply& reply) override {
    rpc::EntriesReply out;
    RETURN_IF_ERROR(Call([&] { client_.entries(out, worker_, generation_, first); }));
    reply.entries = std::move(out.entries);
    reply.next = out.next_first;
    return {};
  }
  Status Load(const std::string& entries) override {
    AllowFor(entries.size());
    return Call([&] { client_.load(worker_, generation_, entries); });
  }

  Status Stats(StatsReply& reply) override {
    rpc::StatsReply out;
    RETURN_IF_ERROR(Call([&] { client_.stats(out, worker_, generation_); }));
    FromRpc(out, reply);
    return {};
  }

  Status InitDense(const DenseRequest& request, DenseReply& reply) override {
    return Dense(&rpc::ParameterServerClient::init_dense, request, reply);
  }
  Status PushDense(const DenseRequest& request, DenseReply& reply) override {
    return Dense(&rpc::ParameterServerClient::push_dense, request, reply);
  }
  Status PullDense(const DenseRequest& request, DenseReply& reply) override {
    return Dense(&rpc::ParameterServerClient::pull_dense, request, reply);
  }

  uint64_t bytes_sent() const override { return transport_->bytes().out; }
  uint64_t bytes_received() const override { return transport_->bytes().in; }

 private:
  template <typename Function>
  static Status Call(Function call) {
    try {
      call();
      return {};
    } catch (const rpc::Refused& refused) {
      return refused.busy ? Busy(refused.message) : Invalid(refused.message);
    } catch (const rpc::JobFailed& failed) {
      return Failed(failed.message);
    } catch (const TSSLException& error) {
      return TlsError(error.what());
    } catch (const TTransportException& error) {
      if (error.getType() == TTransportException::TIMED_OUT)
        return Status(Code::kIo, "no reply in time");
      if (error.getType() == TTransportException::END_OF_FILE)
        return Status(Code::kIo, "it closed the connection without a reply");
      if (error.getType() == TTransportException::CORRUPTED_DATA) return Corrupt(error.what());
      return Status(Code::kIo, error.what());
    } catch (const TProtocolException& error) {
      return Status(Code::kIo, std::string("expected a reply of millrace-ps, found other "
                                           "bytes or a cut connection: ") +
                                   error.what());
    } catch (const std::bad_alloc&) {
      throw;  // no fault of the connection
    } catch (const std::exception& error) {
      return Status(Code::kIo, error.what());
    }
  }

  using DenseMethod = void (rpc::ParameterServerClient::*)(rpc::DenseReply&,
                                                           const rpc::DenseRequest&);
  Status Dense(DenseMethod method, const DenseRequest& request, DenseReply& reply) {
    AllowFor(request.values.size());
    rpc::DenseRequest in;
    ToRpc(request, in);
    in.worker = worker_;
    in.generation = generation_;
    rpc::DenseReply out;
    RETURN_IF_ERROR(Call([&] { (client_.*method)(out, in); }));
    FromRpc(out, reply);
    return {};
  }

  // Allows more time for this and all later calls: key lists that the server keeps, and blocks of
  // numbers, are requested again by name.
  void AllowFor(size_t bytes) {
    const size_t beyond = bytes - std::min(bytes, kOrdinaryBytes);
    const int more_s = static_cast<int>(beyond / kSlowestBytesPerSecond);
    if (more_s <= more_s_) return;
    more_s_ = more_s;
    socket_->setRecvTimeout(call_ms_ + more_s * 1000);
    socket_->setSendTimeout(call_ms_ + more_s * 1000);
  }

  std::shared_ptr<TSocket> socket_;
  bool tls_;
  int call_ms_;
  int more_s_ = 0;
  std::shared_ptr<MessageTransport> transport_;
  std::shared_ptr<MessageProtocol> protocol_;
  rpc::ParameterServerClient client_;
  int32_t worker_ = 0;
  int64_t generation_ = 0;
};

class ThriftTransport final : public Transport {
 public:
  ThriftTransport(ThriftOptions options, std::shared_ptr<TSSLSocketFactory> tls)
      : options_(std::move(options)), tls_(std::move(tls)) {}

  size_t shards() const override { return options_.servers.size(); }

  std::string Describe(size_t shard) const override {
    const HostPort& server = options_.servers[shard];
    return "server " + std::to_string(shard) + " at " + server.host + ":" +
           std::to_string(server.port);
  }

  Result<std::unique_ptr<Channel>> Connect(size_t shard) override {
    const HostPort& server = options_.servers[shard];
    try {
      std::shared_ptr<TSocket> socket = tls_ ? tls_->createSocket(server.host, server.port)
                                             : std::make_shared<TSocket>(server.host, server.port);
      socket->setConnTimeout(options_.connect_ms);
      socket->setRecvTimeout(options_.call_ms);
      socket->setSendTimeout(options_.call_ms);
      socket->setNoDelay(true);
      socket->open();
      return std::unique_ptr<Channel>(std::make_unique<ThriftChannel>(socket, options_));
    } catch (const std::exception& error) {
      return Status(Code::kIo, error.what());
    }
  }

 private:
  ThriftOptions options_;
  std::shared_ptr<TSSLSocketFactory> tls_;
};

}  // namespace

Result<std::unique_ptr<Transport>> MakeThriftTransport(ThriftOptions options) {
  RETURN_IF_ERROR(options.tls.Validate());
  SilenceThrift();
  std::shared_ptr<TSSLSocketFactory> tls;
  try {
    if (options.tls.enabled()) tls = MakeTlsFactory(options.tls, /*server=*/false);
  } catch (const std::exception& error) {
    return Invalid(std::string("TLS: ") + error.what());
  }
  return std::unique_ptr<Transport>(
      std::make_unique<ThriftTransport>(std::move(options), std::move(tls)));
}

}  // namespace millrace::ps
