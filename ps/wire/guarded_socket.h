// Sockets for a server that strangers can reach. Apache Thrift's own have no limit on the time that
// a message may take.
#pragma once

#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "ps/wire/connection_limits.h"

namespace millrace::ps {

// A connected socket with a time limit for each message, however slowly its bytes drip in.
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

}  // namespace millrace::ps
