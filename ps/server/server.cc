// SPDX-License-Identifier: Apache-2.0
#include "ps/server/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thrift/server/TThreadedServer.h>
#include <thrift/transport/TSSLServerSocket.h>
#include <thrift/transport/TSSLSocket.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
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

// A host that is gone without closing its connections is noticed after idle + count * interval
// seconds: until then no other process can take the place of its worker.
void ProbeWhenIdle(int socket) {
  constexpr int kIdleS = 10, kIntervalS = 5, kCount = 3;
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof kIdleS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof kIntervalS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kCount, sizeof kCount);
}

class ConnectionFactory final : public apache::thrift::TProcessorFactory {
 public:
  ConnectionFactory(ServerState& state, PendingConnections& pending)
      : state_(state), pending_(pending) {}

  std::shared_ptr<apache::thrift::TProcessor> getProcessor(const TConnectionInfo& info) override {
    auto protocol = std::dynamic_pointer_cast<MessageProtocol>(info.input);
    auto output = std::dynamic_pointer_cast<MessageTransport>(info.output->getTransport());
    auto socket = std::dynamic_pointer_cast<TSocket>(info.transport);
    CHECK(protocol && output && socket);
    ProbeWhenIdle(socket->getSocketFD());
    return std::make_shared<ConnectionProcessor>(std::make_shared<Connection>(
        state_, pending_.Add(socket->getSocketFD()), std::move(protocol), std::move(output)));
  }

 private:
  ServerState& state_;
  PendingConnections& pending_;
};

// Passes notes on from a thread of its own: a terminal or pipe that takes no more text must not
// hold up the shard.
class NoteQueue {
 public:
  explicit NoteQueue(std::function<void(const std::string&)> on_note)
      : on_note_(std::move(on_note)) {
    if (on_note_) thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  // Thread-safe. Drops the note if too many are pending.
  void Add(const std::string& note) {
    std::lock_guard lock(mu_);
    if (notes_.size() < kMaxNotes) notes_.push_back(note);
    changed_.notify_all();
  }

 private:
  static constexpr size_t kMaxNotes = 1000;

  // Until the queue is destroyed and empty.
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mu_);
    while (changed_.wait(lock, stop, [&] { return !notes_.empty(); })) {
      const std::string note = std::move(notes_.front());
      notes_.pop_front();
      lock.unlock();
      on_note_(note);
      lock.lock();
    }
  }

  const std::function<void(const std::string&)> on_note_;
  std::mutex mu_;
  std::condition_variable_any changed_;
  std::deque<std::string> notes_;  // guarded by mu_
  std::jthread thread_;
};

// Tells when the server listens, or that it cannot.
class Listening final : public apache::thrift::server::TServerEventHandler {
 public:
  void preServe() override { Set(""); }
  // False if it has listened before.
  bool Failed(const std::string& why) { return Set(why); }
  // Empty, or why not.
  std::string Wait() { return result_.get_future().get(); }

 private:
  bool Set(const std::string& why) {
    if (set_.exchange(true)) return false;
    result_.set_value(why);
    return true;
  }

  std::atomic<bool> set_ = false;
  std::promise<std::string> result_;
};

}  // namespace

Status ServerOptions::Validate() const {
  if (port < 0 || port > 65535) {
    return Invalid("port: expected 0 to 65535, found " + std::to_string(port));
  }
  const bool open_to_all = token.empty() && !IsLoopback(host);
  if (open_to_all && !insecure_no_token) {
    return Invalid("other hosts can reach the address " + host +
                   ", and without a token any peer may join: expected a token, a loopback address, "
                   "or insecure_no_token");
  }
  if (insecure_no_token && !open_to_all) {
    return Invalid(std::string("insecure_no_token has no effect ") +
                   (token.empty() ? "on the loopback address " + host : "with a token"));
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
        notes_(options.shard.on_note),
        shard_(WithNotes(options.shard), std::chrono::milliseconds(options.call_ms)),
        state_{.shard = shard_,
               .token = options.token,
               .unauthenticated_limits = {.idle_ms = options.authenticate_ms,
                                          .message_ms = options.authenticate_ms,
                                          .max_string = kUnauthenticatedMaxString,
                                          .max_message = kUnauthenticatedMaxMessage},
               .on_note = [this](const std::string& note) { notes_.Add(note); }},
        pending_({.authenticate_within = std::chrono::milliseconds(options.authenticate_ms)},
                 [this](const std::string& note) { notes_.Add(note); }) {}

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
    const auto begun = [&] { return shard_.shard().StartBlockedOn().empty(); };
    while (!should_stop()) {
      if (!shard_.WaitFor(kTick, begun)) continue;  // a checkpoint is being restored
      if (begun() || !shard_.shard().failed().ok()) return begun();
    }
    return false;
  }

  Status Wait(const std::function<bool()>& should_stop) {
    const ShardLock lock(shard_);
    const auto done = [&] { return shard_.shard().done(); };
    while (!should_stop()) {
      if (!shard_.WaitFor(kTick, done)) continue;
      Shard& shard = shard_.shard();
      shard.Tick(NowNs());
      if (!shard.failed().ok()) {
        shard_.NotifyAll();
        return shard.failed();
      }
      if (done()) return {};
    }
    return Cancelled("interrupted");
  }

  Summary summary() {
    const ShardLock lock(shard_);
    Summary summary;
    if (shard_.WaitUntilFree()) {
      summary.steps = shard_.shard().progress().step;
      summary.examples = shard_.shard().progress().examples;
    }
    for (const auto& [kind, count] : state_.calls) {
      summary.messages += count.messages;
      summary.bytes_in += count.bytes_in;
      summary.bytes_out += count.bytes_out;
    }
    summary.refused = state_.refused + pending_.closed();
    summary.corrupt = state_.corrupt;
    return summary;
  }

  const ServerOptions options_;
  int port_ = 0;

 private:
  ShardOptions WithNotes(ShardOptions options) {
    options.on_note = [this](const std::string& note) { notes_.Add(note); };
    return options;
  }

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
        if (!listening->Failed(error.what()))
          throw;  // no thread for a connection: the process ends
      }
    });
    return listening->Wait();
  }

  NoteQueue notes_;
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
  ServerOptions mine = options;
  ASSIGN_OR_RETURN(mine.shard.instance, DrawIdentity());
  auto server = std::make_unique<Server>(Private{}, mine);
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
