// SPDX-License-Identifier: Apache-2.0
// The layer between a socket and Thrift's protocols, on both sides of a connection. Apache Thrift's
// own buffers copy all data, and count all bytes of a connection against the limit of one message.
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

// Sends each message as one frame and reads frame by frame. A frame is that of a TFRecord
// (io/record/record_format.h): the length and the message, each with its CRC-32C. A frame is
// received as a whole and checked before any of it is read, so a changed bit is an error, never a
// changed message: the connection is closed, and an exception of the type CORRUPTED_DATA names the
// peer, what was expected and what was found.
//
// Also gives views of the bytes of a message, counts bytes, gives each message a size limit of its
// own, and can close the connection behind a reply. Not thread-safe.
//
// Written memory must stay valid until flush(): large pieces are sent without a copy.
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
  // Drops bytes that were not flushed: they are an incomplete message.
  void close() override;
  void flush() override;
  uint32_t readEnd() override;
  const std::string getOrigin() const override { return socket_->getOrigin(); }
  uint32_t readAll(uint8_t* buf, uint32_t len) { return TBufferBase::readAll(buf, len); }

  // The next `size` bytes; RawBuffer::kPadding bytes behind them may be read as well. Stays
  // valid until something of the next message is read.
  std::string_view View(uint32_t size);

  // The time limits apply if the socket is a GuardedSocket. Without this call a message may have up
  // to 1 GB.
  void SetLimits(const ConnectionLimits& limits);
  void CloseAfterReply() { close_after_reply_ = true; }
  // Since the connection was opened.
  const Bytes& bytes() const { return bytes_; }

 protected:
  uint32_t readSlow(uint8_t* buf, uint32_t len) override;
  void writeSlow(const uint8_t* buf, uint32_t len) override;
  const uint8_t* borrowSlow(uint8_t* buf, uint32_t* len) override;

 private:
  // Sent without a copy, after the first `before` bytes of head_.
  struct Piece {
    size_t before;
    const uint8_t* data;
    size_t size;
  };

  size_t unread() const { return static_cast<size_t>(rBound_ - rBase_); }
  size_t head_size() const;
  bool ReadFrame();
  bool Fill(size_t wanted);
  void MakeRoom(size_t wanted);
  uint32_t ReceiveBody(uint64_t length);
  void CheckLength(uint64_t length) const;
  [[noreturn]] void FailCorrupt(const char* what, uint32_t expected, uint32_t found);
  void CloseFrame();
  void SetHead(size_t size);
  void Send();
  void SendPieces();

  std::shared_ptr<apache::thrift::transport::TTransport> socket_;
  apache::thrift::transport::TSocket* plain_ = nullptr;  // socket_, if it does not encrypt
  GuardedSocket* guarded_ = nullptr;                     // socket_, if it is one
  Bytes bytes_;
  bool close_after_reply_ = false;

  RawBuffer in_;
  size_t begin_ = 0, end_ = 0;  // in in_: the present frame and what has come behind it
  size_t frame_ = 0;            // bytes of the present frame
  bool message_over_ = true;    // the next read begins with a new frame
  size_t max_message_ = size_t{1} << 30;

  RawBuffer head_;  // the frame's header and all small pieces, one behind the other
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
