// SPDX-License-Identifier: Apache-2.0
// A TCP proxy on loopback that now and then flips one bit of what passes, in both directions, as a
// faulty network card or switch does behind the checksum of TCP.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "io/base/random.h"

namespace millrace::test {

class FlipProxy {
 public:
  // One bit flips in about every `every_bytes` bytes, half of them in the first bytes of what is
  // received at once, where frames have their length. `every_bytes` 0: none. With `record` the
  // bytes of both directions are kept.
  FlipProxy(int server_port, uint64_t seed, uint64_t every_bytes, bool record = false)
      : server_port_(server_port), seed_(seed), every_bytes_(every_bytes), record_(record) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { Accept(); });
  }
  ~FlipProxy() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (Link& link : links_) {
      ::shutdown(link.worker, SHUT_RDWR);
      ::shutdown(link.server, SHUT_RDWR);
      link.thread.join();
      ::close(link.worker);
      ::close(link.server);
    }
    ::close(listener_);
  }
  FlipProxy(const FlipProxy&) = delete;
  FlipProxy& operator=(const FlipProxy&) = delete;

  int port() const { return port_; }
  uint64_t flips() const { return flips_; }
  // Flips a bit of the next bytes that come from the server.
  void FlipNextReply() { flip_next_reply_ = true; }

  // What passed so far, with flips, by connection.
  std::vector<std::string> to_server() const { return Recorded(&Link::to_server); }
  std::vector<std::string> to_worker() const { return Recorded(&Link::to_worker); }

 private:
  struct Link {
    int worker = -1, server = -1;
    std::string to_server, to_worker;
    std::jthread thread;
  };

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  std::vector<std::string> Recorded(std::string Link::*bytes) const {
    const std::lock_guard lock(mu_);
    std::vector<std::string> all;
    for (const Link& link : links_) all.push_back(link.*bytes);
    return all;
  }

  void Accept() {
    const int one = 1;
    for (int worker; (worker = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(server_port_);
      const auto* to = reinterpret_cast<const sockaddr*>(&address);
      if (::connect(server, to, sizeof address) != 0) {
        ::close(server);
        ::close(worker);
        continue;
      }
      for (const int fd : {worker, server}) {
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      }
      const std::lock_guard lock(mu_);
      Link& link = links_.emplace_back();
      link.worker = worker;
      link.server = server;
      link.thread = std::jthread([this, &link, seed = seed_ + links_.size()] { Pump(link, seed); });
    }
  }

  void Pump(Link& link, uint64_t seed) {
    Random random(seed);
    uint64_t until_flip = NextFlip(random);
    std::vector<char> buffer(64 << 10);
    while (true) {
      pollfd ends[2] = {{link.worker, POLLIN, 0}, {link.server, POLLIN, 0}};
      if (::poll(ends, 2, -1) < 0) break;
      const bool from_worker = ends[0].revents != 0;
      const int from = from_worker ? link.worker : link.server;
      const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      const auto size = static_cast<uint64_t>(got);
      if (!from_worker && flip_next_reply_.exchange(false)) {
        buffer[0] = static_cast<char>(buffer[0] ^ 1);
        ++flips_;
      }
      if (every_bytes_ > 0 && size >= until_flip) {
        const uint64_t at =
            random.Below(2) == 0 ? random.Below(std::min<uint64_t>(size, 16)) : random.Below(size);
        buffer[at] = static_cast<char>(buffer[at] ^ (1 << random.Below(8)));
        ++flips_;
        until_flip = NextFlip(random);
      } else {
        until_flip -= size;
      }
      if (record_) {
        const std::lock_guard lock(mu_);
        (from_worker ? link.to_server : link.to_worker).append(buffer.data(), size);
      }
      if (!SendAll(from_worker ? link.server : link.worker, buffer.data(), size)) break;
    }
    ::shutdown(link.worker, SHUT_RDWR);
    ::shutdown(link.server, SHUT_RDWR);
  }

  uint64_t NextFlip(Random& random) const { return 1 + random.Below(2 * every_bytes_ + 1); }

  static bool SendAll(int fd, const char* data, size_t size) {
    while (size > 0) {
      const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      size -= static_cast<size_t>(sent);
    }
    return true;
  }

  const int server_port_;
  const uint64_t seed_, every_bytes_;
  const bool record_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<uint64_t> flips_ = 0;
  std::atomic<bool> flip_next_reply_ = false;
  mutable std::mutex mu_;
  std::list<Link> links_;  // guarded by mu_: the list and the bytes
  std::jthread thread_;
};

}  // namespace millrace::test
