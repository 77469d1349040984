// Sockets and transports for a server that strangers can reach. Apache Thrift's own have no limit
// on the time that a message may take, and add up all bytes of a connection against the limit of
// one message.
#pragma once

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>
#include <thrift/transport/TSocket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
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

// Passes bytes on and counts them.
class CountingTransport final
    : public apache::thrift::transport::TVirtualTransport<CountingTransport> {
 public:
  explicit CountingTransport(std::shared_ptr<apache::thrift::transport::TTransport> inner)
      : inner_(std::move(inner)) {}

  bool isOpen() const override { return inner_->isOpen(); }
  bool peek() override { return inner_->peek(); }
  void open() override { inner_->open(); }
  void close() override { inner_->close(); }
  void flush() override { inner_->flush(); }
  const std::string getOrigin() const override { return inner_->getOrigin(); }
  uint32_t read(uint8_t* buf, uint32_t len) {
    const uint32_t size = inner_->read(buf, len);
    bytes_.in += size;
    return size;
  }
  void write(const uint8_t* buf, uint32_t len) {
    bytes_.out += len;
    inner_->write(buf, len);
  }

  struct Bytes {
    uint64_t in = 0, out = 0;
  };
  // Since the beginning.
  const Bytes& bytes() const { return bytes_; }
  apache::thrift::transport::TTransport& inner() { return *inner_; }

 private:
  std::shared_ptr<apache::thrift::transport::TTransport> inner_;
  Bytes bytes_;
};

// Buffers messages, counts their bytes, gives each message a size limit of its own, and can close
// the connection behind an answer.
class MessageTransport final : public apache::thrift::transport::TBufferedTransport {
 public:
  static constexpr uint32_t kBufferBytes = 64 << 10;
  explicit MessageTransport(std::shared_ptr<apache::thrift::transport::TTransport> socket)
      : MessageTransport(std::make_shared<CountingTransport>(std::move(socket))) {}

  uint32_t readEnd() override;
  void flush() override;

  // The time limits hold where the socket below is one of ours.
  void SetLimits(const ConnectionLimits& limits);
  void CloseAfterReply() { close_after_reply_ = true; }
  const CountingTransport::Bytes& bytes() const { return counting_->bytes(); }

 private:
  explicit MessageTransport(std::shared_ptr<CountingTransport> counting)
      : TBufferedTransport(counting, kBufferBytes), counting_(std::move(counting)) {}

  std::shared_ptr<CountingTransport> counting_;
  bool close_after_reply_ = false;
};

class MessageTransportFactory final : public apache::thrift::transport::TTransportFactory {
 public:
  std::shared_ptr<apache::thrift::transport::TTransport> getTransport(
      std::shared_ptr<apache::thrift::transport::TTransport> socket) override {
    return std::make_shared<MessageTransport>(std::move(socket));
  }
};

}  // namespace millrace::ps
