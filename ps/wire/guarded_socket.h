// SPDX-License-Identifier: Apache-2.0
// Sockets for a server that unauthenticated peers can reach. Apache Thrift's own sockets do not
// limit the time that a message may take.
#pragma once

#include <thrift/transport/TSSLSocket.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/wire/endpoint.h"

namespace millrace::ps {

// The limits of time and memory of one connection.
struct ConnectionLimits {
  int idle_ms = 0;         // between two messages; 0: no limit
  int message_ms = 30000;  // from a message's first byte to its last
  int max_string = 64 << 20;
  // A whole message: the gradient of an exchange and two lists of keys.
  size_t max_message = 3 * (size_t{64} << 20) + (1 << 20);
};

// Limits until the peer has sent the job's token.
constexpr int kUnauthenticatedMaxString = 64 << 10;
constexpr size_t kUnauthenticatedMaxMessage = 256 << 10;

// A connected socket with a time limit for each message, however slowly its bytes arrive.
class GuardedSocket final : public apache::thrift::transport::TSocket {
 public:
  GuardedSocket(THRIFT_SOCKET socket, std::shared_ptr<THRIFT_SOCKET> interrupt)
      : TSocket(socket, std::move(interrupt)) {}

  void SetLimits(const ConnectionLimits& limits) { limits_ = limits; }
  void EndMessage() { in_message_ = false; }

  uint32_t read(uint8_t* buf, uint32_t len) override;

 private:
  ConnectionLimits limits_;
  bool in_message_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

// Listens; its connections are GuardedSockets.
class GuardedServerSocket final : public apache::thrift::transport::TServerSocket {
 public:
  using TServerSocket::TServerSocket;

 protected:
  std::shared_ptr<apache::thrift::transport::TSocket> createSocket(THRIFT_SOCKET socket) override;
};

// Set-up of Thrift that servers and workers share.

// Mutual TLS, version 1.2 or later. Throws Thrift's exceptions if a file is not valid.
std::shared_ptr<apache::thrift::transport::TSSLSocketFactory> MakeTlsFactory(const TlsFiles& files,
                                                                             bool server);

// Stops Thrift from printing every broken connection to standard error.
void SilenceThrift();

}  // namespace millrace::ps
