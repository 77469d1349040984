// SPDX-License-Identifier: Apache-2.0
// What is between a socket and Thrift's protocols, on both sides of a connection. Apache Thrift's
// own buffers copy all that passes, and add up all bytes of a connection against the limit of one
// message.
#pragma once

#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TSocket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/raw_buffer.h"
#include "ps/wire/guarded_socket.h"

namespace millrace::ps {

// Gathers a message and sends it as a whole, gives views of the bytes that came, counts bytes,
// gives each message a size limit of its own, and can close the connection behind an answer. Not
// thread-safe.
//
// What is written must stay where it is until flush(): large pieces are sent from their place.
class MessageTransport final
    : public apache::thrift::transport::TVirtualTransport<MessageTransport,
                                                          apache::thrift::transport::TBufferBase> {
 public:
  struct Bytes {
    uint64_t in = 0, out = 0;
  };

  explicit MessageTransport(std::shared_ptr<apache::thrift::transport::TTransport> socket);

  bool isOpen() const override { return socket_->isOpen(); }
  void open() override { socket_->open(); }
  bool peek() override;
  // What was not flushed is the beginning of a message, and is dropped.
  void close() override;
  void flush() override;
  uint32_t readEnd() override;
  const std::string getOrigin() const override { return socket_->getOrigin(); }
  uint32_t readAll(uint8_t* buf, uint32_t len) { return TBufferBase::readAll(buf, len); }

  // The next `size` bytes; RawBuffer::kPadding bytes behind them may be read as well. Stays
  // valid until something of the next message is read. Memory follows what has come, and is that of
  // the message.
  std::string_view View(uint32_t size);

  // The time limits hold where the socket below is one of ours. Without a call a message may have a
  // gigabyte.
  void SetLimits(const ConnectionLimits& limits);
  void CloseAfterReply() { close_after_reply_ = true; }
  // Since the beginning.
  const Bytes& bytes() const { return bytes_; }

 protected:
  uint32_t readSlow(uint8_t* buf, uint32_t len) override;
  void writeSlow(const uint8_t* buf, uint32_t len) override;
  const uint8_t* borrowSlow(uint8_t*, uint32_t*) override { return nullptr; }

 private:
  // Sent from its place, behind the first `before` bytes of head_.
  struct Piece {
    size_t before;
    const uint8_t* data;
    size_t size;
  };

  size_t unread() const { return static_cast<size_t>(rBound_ - rBase_); }
  size_t head_size() const;
  void StartMessage();
  bool Fill(size_t wanted);
  void MakeRoom(size_t wanted);
  uint32_t Receive(uint8_t* to, size_t room);
  void SetHead(size_t size);
  void Send();
  void SendPieces();

  std::shared_ptr<apache::thrift::transport::TTransport> socket_;
  apache::thrift::transport::TSocket* plain_ = nullptr;  // socket_, if its bytes go out as they are
  GuardedSocket* guarded_ = nullptr;                     // socket_, if it is one
  Bytes bytes_;
  bool close_after_reply_ = false;

  RawBuffer in_;
  std::vector<RawBuffer> kept_;  // full ones that views of this message show
  bool views_ = false;           // there are some of in_
  bool message_over_ = false;
  size_t received_ = 0;  // of this message (and what may have come behind it)
  size_t max_message_ = size_t{1} << 30;

  RawBuffer head_;  // all small pieces, one behind the other
  std::vector<Piece> pieces_;
};

class MessageTransportFactory final : public apache::thrift::transport::TTransportFactory {
 public:
  std::shared_ptr<apache::thrift::transport::TTransport> getTransport(
      std::shared_ptr<apache::thrift::transport::TTransport> socket) override {
    return std::make_shared<MessageTransport>(std::move(socket));
  }
};

}  // namespace millrace::ps
