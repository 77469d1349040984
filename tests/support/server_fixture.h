// SPDX-License-Identifier: Apache-2.0
// A real server on a socket of this host, and workers that join it.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/server/server.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "ps/worker/thrift_transport.h"

namespace millrace::ps {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline JobConfig Config(size_t workers, uint64_t num_features = 100000) {
  JobConfig config;
  config.num_workers = workers;
  config.num_features = num_features;
  config.update.rule = sparse::Rule::kSgd;
  config.update.rate = 1;
  return config;
}

// One worker process: its session and its store.
struct TestWorker {
  explicit TestWorker(std::unique_ptr<JobSession> joined)
      : session(std::move(joined)), store(*session) {}

  Status Start() { return session->Start().status(); }
  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) {
    return store.Pull(keys, weights);
  }
  Status Push(std::span<const uint64_t> keys, std::span<const float> gradient,
              const sparse::PushInfo& info) {
    return store.Push(keys, gradient, info);
  }
  Status Flush() { return store.Flush(); }
  Status Stop() {
    return session->Stop([this] { return store.Flush(); });
  }
  Status Checkpoint(uint64_t id, const std::string& state) {
    RETURN_IF_ERROR(store.Flush());
    return session->Checkpoint(id, state);
  }
  Status Finish() {
    RETURN_IF_ERROR(store.Flush());
    return session->Finish();
  }
  Status Leave() { return session->Leave(); }
  const WireStats& wire(size_t shard) const { return store.wire(shard); }

  std::unique_ptr<JobSession> session;
  RemoteStore store;
};

class ServerTest : public testing::Test {
 protected:
  void StartServer(size_t workers) {
    options_.shard.num_workers = workers;
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    thrift_.servers = {{.host = "127.0.0.1", .port = server_->port()}};
  }

  SessionOptions Session(const JobConfig& config, size_t worker) const {
    SessionOptions options;
    options.thrift = thrift_;
    options.config = config;
    options.worker = worker;
    options.token = options_.token;
    const std::string& folder = options_.shard.checkpoints;
    options.checkpoints = folder.empty() ? "" : folder + "/chief";
    options.wait.reconnect_s = 0.5;
    options.wait.first_join_ns = 5000000000;
    return options;
  }

  // A worker that has joined; null if it is refused.
  std::unique_ptr<TestWorker> Worker(const SessionOptions& options) {
    auto transport = MakeThriftTransport(options.thrift);
    EXPECT_TRUE(transport.ok()) << transport.status().message();
    transports_.push_back(std::move(*transport));
    auto session = JobSession::Join(options, *transports_.back(), *clock_);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return nullptr;
    return std::make_unique<TestWorker>(std::move(*session));
  }
  std::unique_ptr<TestWorker> Worker(const JobConfig& config, size_t worker) {
    return Worker(Session(config, worker));
  }

  std::unique_ptr<TestWorker> StartedWorker(const JobConfig& config) {
    auto worker = Worker(config, 0);
    EXPECT_TRUE(worker && worker->Start().ok());
    return worker;
  }

  // A bare connection of worker 0, which was lost before; null if it may not join.
  std::unique_ptr<Channel> Twin(const JobConfig& config) {
    auto transport = MakeThriftTransport(thrift_);
    auto channel = (*transport)->Connect(0);
    if (!channel.ok()) return nullptr;
    JoinReply joined;
    const JoinRequest join = {.token = options_.token,
                              .worker = 0,
                              .name = "twin",
                              .config = config.Fields().Encode(),
                              .rejoin = true};
    return (*channel)->Join(join, joined).ok() ? std::move(*channel) : nullptr;
  }

  int Connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  // Whether the peer closes the connection within that time.
  static bool Closes(int fd, milliseconds limit) {
    const auto deadline = steady_clock::now() + limit;
    char buffer[4096];
    while (steady_clock::now() < deadline) {
      pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&poll_fd, 1, 50) == 0) continue;
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

  // Runs a step of one worker, which shows that the server works.
  static void ExpectServes(TestWorker& worker) {
    const std::vector<uint64_t> keys = {1, 2, 77};
    const std::vector<float> gradient = {1, 1, 1};
    std::vector<float> before(3), after(3);
    ASSERT_TRUE(worker.Pull(keys, before).ok());
    ASSERT_TRUE(worker.Push(keys, gradient, {.rows = 1, .weight = 1}).ok());
    ASSERT_TRUE(worker.Flush().ok());
    ASSERT_TRUE(worker.Pull(keys, after).ok());
    EXPECT_EQ(after[0], before[0] - 1);
  }

  static long PeakKb() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
      long kb = 0;
      if (word == "VmHWM:" && file >> kb) return kb;
    }
    return 0;
  }

  ServerOptions options_ = {.shard = {}, .token = "secret", .authenticate_ms = 300, .call_ms = 100};
  ThriftOptions thrift_;
  std::unique_ptr<Clock> clock_ = std::make_unique<RealClock>();
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<Server> server_;
};

}  // namespace millrace::ps
