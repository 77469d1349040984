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

class ServerTest : public testing::Test {
 protected:
  void StartServer(size_t workers) {
    options_.shard.num_workers = workers;
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    thrift_.servers = {{.host = "127.0.0.1", .port = server_->port()}};
  }

  // A worker that has joined and started (with the others, if there are some).
  std::unique_ptr<RemoteStore> Worker(const JobConfig& config, size_t worker,
                                      RemoteOptions remote = {}) {
    remote.config = config;
    remote.client.join.worker = worker;
    remote.client.join.token = options_.token;
    remote.client.give_up_ns = 500000000;
    remote.client.first_join_ns = 5000000000;
    auto transport = MakeThriftTransport(thrift_);
    EXPECT_TRUE(transport.ok()) << transport.status().message();
    transports_.push_back(std::move(*transport));
    auto store = RemoteStore::Connect(*transports_.back(), *clock_, remote);
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (!store.ok()) return nullptr;
    return std::move(*store);
  }

  std::unique_ptr<RemoteStore> StartedWorker(const JobConfig& config) {
    auto store = Worker(config, 0);
    EXPECT_TRUE(store && store->Start().ok());
    return store;
  }

  // A bare connection that takes the place of worker 0; null if it may not.
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

  // A step of a worker by itself, to see that the server is well.
  static void ExpectServes(RemoteStore& store) {
    const std::vector<uint64_t> keys = {1, 2, 77};
    const std::vector<float> gradient = {1, 1, 1};
    std::vector<float> before(3), after(3);
    ASSERT_TRUE(store.Pull(keys, before).ok());
    store.Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(store.Push(keys, gradient).ok());
    ASSERT_TRUE(store.Flush().ok());
    ASSERT_TRUE(store.Pull(keys, after).ok());
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

  ServerOptions options_ = {.shard = {}, .token = "secret", .stranger_ms = 300, .wait_ms = 100};
  ThriftOptions thrift_;
  std::unique_ptr<Clock> clock_ = std::make_unique<RealClock>();
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<Server> server_;
};

}  // namespace millrace::ps
