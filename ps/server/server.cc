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

#include "ps/server/connection.h"
#include "ps/server/exchange_processor.h"
#include "ps/wire/guarded_socket.h"
#include "ps/wire/thrift_tls.h"

namespace millrace::ps {
namespace {

using apache::thrift::TConnectionInfo;
using apache::thrift::server::TThreadedServer;
using apache::thrift::transport::TServerSocket;
using apache::thrift::transport::TSocket;

constexpr int kContainerLimit = 1 << 16;
// More than there may be strangers: Thrift accepts nobody beyond it.
constexpr int64_t kConnectionsBeyondWorkers = 512;
constexpr std::chrono::milliseconds kTick(100);
// A peer that takes no byte of an answer for so long is gone.
constexpr int kSendMs = 5000;

class ConnectionFactory final : public apache::thrift::TProcessorFactory {
 public:
  ConnectionFactory(ServerState& state, Strangers& strangers)
      : state_(state), strangers_(strangers) {}

  std::shared_ptr<apache::thrift::TProcessor> getProcessor(const TConnectionInfo& info) override {
    auto protocol = std::dynamic_pointer_cast<MessageProtocol>(info.input);
    auto output = std::dynamic_pointer_cast<MessageTransport>(info.output->getTransport());
    auto socket = std::dynamic_pointer_cast<TSocket>(info.transport);
    CHECK(protocol && output && socket);
    return std::make_shared<ExchangeProcessor>(std::make_shared<Connection>(
        state_, strangers_.Begin(socket->getSocketFD()), std::move(protocol), std::move(output)));
  }

 private:
  ServerState& state_;
  Strangers& strangers_;
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
        state_(options.shard, options.token, options.stranger_ms, options.wait_ms),
        strangers_({.stay = std::chrono::milliseconds(options.stranger_ms)},
                   options.shard.on_note) {
    state_.poll = options.poll;
  }

  ~Impl() {
    {
      std::lock_guard lock(state_.mu);
      state_.stopping = true;
      state_.changed.notify_all();
    }
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
      socket->setRecvTimeout(options_.stranger_ms);
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
    std::unique_lock lock(state_.mu);
    while (!state_.shard.StartWaitsFor().empty() && state_.shard.failed().ok() && !should_stop()) {
      state_.changed.wait_for(lock, kTick, [&] { return state_.shard.StartWaitsFor().empty(); });
    }
    return state_.shard.StartWaitsFor().empty();
  }

  Status Wait(const std::function<bool()>& should_stop) {
    std::unique_lock lock(state_.mu);
    while (true) {
      if (!state_.busy) state_.shard.Tick(NowNs());
      if (!state_.shard.failed().ok()) {
        state_.changed.notify_all();
        return state_.shard.failed();
      }
      if (!state_.busy && state_.shard.done()) return {};
      if (should_stop()) return Cancelled("interrupted");
      state_.changed.wait_for(lock, kTick, [&] { return !state_.busy && state_.shard.done(); });
    }
  }

  Summary summary() {
    std::lock_guard lock(state_.mu);
    Summary summary;
    summary.steps = state_.shard.progress().step;
    summary.examples = state_.shard.progress().examples;
    for (const auto& [kind, count] : state_.calls) {
      summary.messages += count.messages;
      summary.bytes_in += count.bytes_in;
      summary.bytes_out += count.bytes_out;
    }
    summary.refused = state_.refused + strangers_.closed();
    return summary;
  }

  const ServerOptions options_;
  int port_ = 0;

 private:
  // Empty, or why it cannot listen.
  std::string Serve(const std::shared_ptr<TServerSocket>& socket) {
    server_ = std::make_shared<TThreadedServer>(
        std::make_shared<ConnectionFactory>(state_, strangers_), socket,
        std::make_shared<MessageTransportFactory>(),
        std::make_shared<MessageProtocolFactory>(kStrangerString, kContainerLimit));
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

  ServerState state_;
  Strangers strangers_;
  std::shared_ptr<apache::thrift::transport::TSSLSocketFactory> tls_;
  std::shared_ptr<TThreadedServer> server_;
  std::jthread serving_;
};

Server::Server(Private, ServerOptions options) : impl_(std::make_unique<Impl>(options)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  RETURN_IF_ERROR(options.Validate());
  SilenceThrift();
  auto server = std::make_unique<Server>(Private{}, std::move(options));
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
