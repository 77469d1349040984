// SPDX-License-Identifier: Apache-2.0
// A web server on loopback whose replies are bytes that a test writes by hand. Each connection has
// one request.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace millrace::test {

class ScriptedServer {
 public:
  // `reply` returns all bytes of the reply to a request, which has `number` others before it. A
  // reply that ends with kHold keeps its connection open until the client leaves.
  using Reply = std::function<std::string(const std::string& request, size_t number)>;
  static constexpr char kHold = '\x04';

  explicit ScriptedServer(Reply reply) : reply_(std::move(reply)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { Accept(); });
  }
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    connections_.clear();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void Accept() {
    for (size_t number = 0;; ++number) {
      const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      connections_.emplace_back([this, peer, number] { Serve(peer, number); });
    }
  }

  void Serve(int peer, size_t number) {
    std::string request;
    char bytes[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(peer, bytes, sizeof bytes, 0);
      if (got <= 0) break;
      request.append(bytes, static_cast<size_t>(got));
    }
    std::string reply;
    // A client that has its error closes connections on which it has not asked yet.
    if (request.ends_with("\r\n\r\n")) {
      const std::lock_guard lock(mu_);
      reply = reply_(request, number);
    }
    const bool holds = !reply.empty() && reply.back() == kHold;
    if (holds) reply.pop_back();
    for (size_t sent = 0; sent < reply.size();) {
      const ssize_t size = ::send(peer, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) break;
      sent += static_cast<size_t>(size);
    }
    while (holds && ::recv(peer, bytes, sizeof bytes, 0) > 0) {
    }
    ::shutdown(peer, SHUT_WR);
    ::close(peer);
  }

  Reply reply_;  // mu_
  std::mutex mu_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<std::jthread> connections_;  // of thread_
  std::jthread thread_;
};

}  // namespace millrace::test
