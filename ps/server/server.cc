// SPDX-License-Identifier: Apache-2.0
#include "ps/server/server.h"

#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TSSLServerSocket.h>
#include <thrift/transport/TSSLSocket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include "profiler/clock.h"
#include "ps/server/connection.h"
#include "ps/wire/guarded_socket.h"

namespace millrace::ps {
namespace {

using apache::thrift::TConnectionInfo;
using apache::thrift::server::TThreadedServer;
using apache::thrift::transport::TServerSocket;
using apache::thrift::transport::TSocket;

constexpr int kContainerLimit = 1 << 16;
// More than there may be pending connections: Thrift accepts none beyond it.
constexpr int64_t kConnectionsBeyondWorkers = 512;
constexpr std::chrono::milliseconds kTick(100);
// A peer that reads no byte of a reply for this long is gone.
constexpr int kSendMs = 5000;

class ConnectionFactory final : public apache::thrift::TProcessorFactory {
 public:
  ConnectionFactory(ServerState& state, PendingConnections& pending)
      : state_(state), pending_(pending) {}

  std::shared_ptr<apache::thrift::TProcessor> getProcessor(const TConnectionInfo& info) override {
    auto protocol = std::dynamic_pointer_cast<MessageProtocol>(info.input);
    auto output = std::dynamic_pointer_cast<MessageTransport>(info.output->getTransport());
    auto socket = std::dynamic_pointer_cast<TSocket>(info.transport);
    CHECK(protocol && output && socket);
    return std::make_shared<ConnectionProcessor>(std::make_shared<Connection>(
        state_, pending_.Add(socket->getSocketFD()), std::move(protocol), std::move(output)));
  }

 private:
  ServerState& state_;
  PendingConnections& pending_;
};

// Tells when the server listens, or that it cannot.
class Listening final : public apache::thrift::server::TServerEventHandler {
 public:
  void preServe() override { Set(""); }
  void Failed(const std::string& why) { Set(why); }
  // Empty, or why not.
  std::string Wait() { return result_.get_future().get(); }

 private:
  void Set(const std::string& why) {
    if (!set_.exchange(true)) result_.set_value(why);
  }

  std::atomic<bool> set_ = false;
  std::promise<std::string> result_;
};

}  // namespace

Status ServerOptions::Validate() const {
  if (port < 0 || port > 65535) {
    return Invalid("port: expected 0 to 65535, found " + std::to_string(port));
  }
  RETURN_IF_ERROR(CheckProcesses("num_ps", shard.num_shards));
  if (shard.shard >= shard.num_shards) {
    return Invalid("task_index: expected below the " + std::to_string(shard.num_shards) +
                   " servers, found " + std::to_string(shard.shard));
  }
  RETURN_IF_ERROR(CheckProcesses("num_workers", shard.num_workers));
  return tls.Validate();
}

class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : options_(options),
        shard_(options.shard, std::chrono::milliseconds(options.call_ms)),
        state_{.shard = shard_,
               .token = options.token,
               .instance = static_cast<uint64_t>(
                   std::chrono::system_clock::now().time_since_epoch().count()),
               .unauthenticated_limits = {.idle_ms = options.authenticate_ms,
                                          .message_ms = options.authenticate_ms,
                                          .max_string = kUnauthenticatedMaxString,
                                          .max_message = kUnauthenticatedMaxMessage}},
        pending_({.authenticate_within = std::chrono::milliseconds(options.authenticate_ms)},
                 options.shard.on_note) {}

  ~Impl() {
    shard_.Shutdown();
    if (server_) server_->stop();
    if (serving_.joinable()) serving_.join();
  }

  Status Listen() {
    try {
      if (options_.tls.enabled()) tls_ = MakeTlsFactory(options_.tls, /*server=*/true);
      std::shared_ptr<TServerSocket> socket;
      if (tls_) {
        socket = std::make_shared<apache::thrift::transport::TSSLServerSocket>(options_.host,
                                                                               options_.port, tls_);
      } else {
        socket = std::make_shared<GuardedServerSocket>(options_.host, options_.port);
      }
      socket->setKeepAlive(true);
      socket->setRecvTimeout(options_.authenticate_ms);
      socket->setSendTimeout(kSendMs);
      const std::string why = Serve(socket);
      port_ = socket->getPort();
      if (!why.empty()) throw std::runtime_error(why);
    } catch (const std::exception& error) {
      return Status(Code::kIo, "cannot listen on " + options_.host + ":" +
                                   std::to_string(options_.port) + ": " + error.what());
    }
    return {};
  }

  bool WaitBegun(const std::function<bool()>& should_stop) {
    const ShardLock lock(shard_);
    const Shard& shard = shard_.shard();
    const auto begun = [&] { return shard.StartBlockedOn().empty(); };
    while (!begun() && shard.failed().ok() && !should_stop()) shard_.WaitFor(kTick, begun);
    return begun();
  }

  Status Wait(const std::function<bool()>& should_stop) {
    const ShardLock lock(shard_);
    Shard& shard = shard_.shard();
    const auto done = [&] { return !shard_.busy() && shard.done(); };
    while (true) {
      if (!shard_.busy()) shard.Tick(NowNs());
      if (!shard.failed().ok()) {
        shard_.NotifyAll();
        return shard.failed();
      }
      if (done()) return {};
      if (should_stop()) return Cancelled("interrupted");
      shard_.WaitFor(kTick, done);
    }
  }

  Summary summary() {
    const ShardLock lock(shard_);
    const JobProgress& progress = shard_.shard().progress();
    Summary summary;
    summary.steps = progress.step;
    summary.examples = progress.examples;
    for (const auto& [kind, count] : state_.calls) {
      summary.messages += count.messages;
      summary.bytes_in += count.bytes_in;
      summary.bytes_out += count.bytes_out;
    }
    summary.refused = state_.refused + pending_.closed();
    return summary;
  }

  const ServerOptions options_;
  int port_ = 0;

 private:
  // Returns why the server cannot listen; empty if it does.
  std::string Serve(const std::shared_ptr<TServerSocket>& socket) {
    server_ = std::make_shared<TThreadedServer>(
        std::make_shared<ConnectionFactory>(state_, pending_), socket,
        std::make_shared<MessageTransportFactory>(),
        std::make_shared<MessageProtocolFactory>(kUnauthenticatedMaxString, kContainerLimit));
    server_->setConcurrentClientLimit(static_cast<int64_t>(2 * options_.shard.num_workers) +
                                      kConnectionsBeyondWorkers);
    auto listening = std::make_shared<Listening>();
    server_->setServerEventHandler(listening);
    serving_ = std::jthread([server = server_, listening] {
      try {
        server->serve();
      } catch (const std::exception& error) {
        listening->Failed(error.what());
      }
    });
    return listening->Wait();
  }

  SharedShard shard_;
  ServerState state_;
  PendingConnections pending_;
  std::shared_ptr<apache::thrift::transport::TSSLSocketFactory> tls_;
  std::shared_ptr<TThreadedServer> server_;
  std::jthread serving_;
};

Server::Server(Private, const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  SilenceThrift();
  auto server = std::make_unique<Server>(Private{}, options);
  RETURN_IF_ERROR(server->impl_->Listen());
  return server;
}

const std::string& Server::host() const { return impl_->options_.host; }
int Server::port() const { return impl_->port_; }
bool Server::WaitBegun(const std::function<bool()>& should_stop) {
  return impl_->WaitBegun(should_stop);
}
Status Server::Wait(const std::function<bool()>& should_stop) { return impl_->Wait(should_stop); }
Server::Summary Server::summary() const { return impl_->summary(); }

}  // namespace millrace::ps

#if defined(__SANITIZE_THREAD__)
// Debian's libthrift is not instrumented: the thread that accepts connections may drop the last
// reference to one whose own thread is done, and the count that orders the two is not seen.
extern "C" const char* __tsan_default_suppressions() {
  return "race:apache::thrift::server::TServerFramework::serve\n";
}
#endif
