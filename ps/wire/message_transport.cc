// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thrift/transport/TSSLSocket.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "io/record/record_format.h"

namespace millrace::ps {
namespace {

using apache::thrift::transport::TSocket;
using apache::thrift::transport::TSSLSocket;
using apache::thrift::transport::TTransport;
using apache::thrift::transport::TTransportException;

constexpr size_t kBufferBytes = 64 << 10;
constexpr size_t kLeastRead = 4 << 10;   // less room than that is not worth a call
constexpr size_t kHeadBytes = 4 << 10;   // at first
constexpr size_t kPieceBytes = 2 << 10;  // smaller ones are copied into the head
constexpr size_t kMostRead = 16 << 20;   // in one call
constexpr size_t kMostKept = 32 << 20;   // a buffer for larger messages is made for each of them
// Thrift counts some of what is read and not the rest; the length of a frame is what counts here.
constexpr int kNoLimit = INT_MAX;

using io::kRecordFooterBytes;
using io::kRecordHeaderBytes;

TTransportException BeyondTheMessage(size_t wanted, size_t left) {
  return TTransportException(TTransportException::UNKNOWN,
                             "a field of a message: expected " + std::to_string(wanted) +
                                 " bytes, found " + std::to_string(left));
}

void SendAll(int socket, std::vector<iovec>& parts) {
  size_t first = 0;
  while (first < parts.size()) {
    msghdr message{};
    message.msg_iov = parts.data() + first;
    message.msg_iovlen = std::min<size_t>(parts.size() - first, IOV_MAX);
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN)
      throw TTransportException(TTransportException::TIMED_OUT, "send timeout expired");
    if (sent < 0) throw TTransportException(TTransportException::UNKNOWN, "send()", errno);
    auto left = static_cast<size_t>(sent);
    for (; first < parts.size() && left >= parts[first].iov_len; ++first)
      left -= parts[first].iov_len;
    if (left == 0) continue;
    parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + left;
    parts[first].iov_len -= left;
  }
}

}  // namespace

MessageTransport::MessageTransport(std::shared_ptr<TTransport> socket)
    : TVirtualTransport(std::make_shared<apache::thrift::TConfiguration>(kNoLimit)),
      socket_(std::move(socket)),
      guarded_(dynamic_cast<GuardedSocket*>(socket_.get())) {
  if (!dynamic_cast<TSSLSocket*>(socket_.get())) plain_ = dynamic_cast<TSocket*>(socket_.get());
  in_.Resize(kBufferBytes);
  setReadBuffer(reinterpret_cast<uint8_t*>(in_.data()), 0);
  head_.Resize(kHeadBytes);
  SetHead(kRecordHeaderBytes);
}

// Room for more bytes; a buffer that is full grows to hold `wanted` from begin_ on. Views of the
// last message are no longer valid.
void MessageTransport::MakeRoom(size_t wanted) {
  const size_t have = end_ - begin_;
  if (have == 0) begin_ = end_ = 0;
  if (begin_ + wanted <= in_.size() || in_.size() - end_ >= kLeastRead) return;
  const size_t needed = std::max(wanted, have) + kLeastRead;
  if (needed <= in_.size()) {
    std::memmove(in_.data(), in_.data() + begin_, have);
  } else {
    RawBuffer fresh;
    fresh.Resize(needed);
    std::memcpy(fresh.data(), in_.data() + begin_, have);
    in_ = std::move(fresh);
  }
  begin_ = 0;
  end_ = have;
}

// Some more bytes, of which `wanted` from begin_ on are going to be needed. False at the
// connection's end.
bool MessageTransport::Fill(size_t wanted) {
  MakeRoom(wanted);
  auto* const to = reinterpret_cast<uint8_t*>(in_.data()) + end_;
  const size_t room = std::min(in_.size() - end_, kMostRead);
  const uint32_t got = socket_->read(to, static_cast<uint32_t>(room));
  bytes_.in += got;
  end_ += got;
  return got > 0;
}

void MessageTransport::FailCorrupt(const char* what, uint32_t expected, uint32_t found) {
  std::string peer = "an unknown peer";
  if (auto* socket = dynamic_cast<TSocket*>(socket_.get())) {
    peer = socket->getPeerAddress() + ":" + std::to_string(socket->getPeerPort());
  }
  char text[100];
  std::snprintf(text, sizeof text, ": %s: expected CRC %08x, found %08x", what, expected, found);
  close();
  throw TTransportException(TTransportException::CORRUPTED_DATA,
                            "corrupt message from " + peer + text);
}

void MessageTransport::CheckLength(uint64_t length) const {
  if (length >= 1 && length <= max_message_) return;
  throw TTransportException(TTransportException::BAD_ARGS,
                            "a message: expected 1 to " + std::to_string(max_message_) +
                                " bytes, found " + std::to_string(length));
}

// The rest of the frame. Returns the CRC of its message, which is computed while more bytes are on
// their way. Memory follows what has come.
uint32_t MessageTransport::ReceiveBody(uint64_t length) {
  const size_t body_end = kRecordHeaderBytes + length;
  uint32_t crc = 0;
  size_t at = kRecordHeaderBytes;
  while (true) {
    const size_t have = end_ - begin_;
    const size_t next = std::min(have, body_end);
    crc = Crc32c(in_.data() + begin_ + at, next - at, crc);
    at = next;
    if (have >= body_end + kRecordFooterBytes) return crc;
    if (!Fill(std::min(body_end + kRecordFooterBytes, 2 * have + kBufferBytes)))
      throw TTransportException(TTransportException::END_OF_FILE, "the connection was closed");
  }
}

// The next message, received and checked. False at the connection's end.
bool MessageTransport::ReadFrame() {
  begin_ += std::exchange(frame_, 0);
  if (begin_ == end_ && in_.size() > kMostKept) {
    in_ = {};
    in_.Resize(kBufferBytes);
    begin_ = end_ = 0;
  }
  while (end_ - begin_ < kRecordHeaderBytes) {
    if (Fill(kRecordHeaderBytes)) continue;
    if (begin_ == end_) return false;
    throw TTransportException(TTransportException::END_OF_FILE, "the connection was closed");
  }
  const char* const header = in_.data() + begin_;
  const uint64_t length = io::LoadU64(header);
  if (!io::HeaderIsValid(header)) {
    FailCorrupt("length, or not a message of this protocol", MaskedCrc32c(header, 8),
                io::LoadU32(header + 8));
  }
  CheckLength(length);
  const uint32_t crc = MaskCrc(ReceiveBody(length));
  char* const message = in_.data() + begin_ + kRecordHeaderBytes;
  const uint32_t found = io::LoadU32(message + length);
  if (crc != found) FailCorrupt("message", crc, found);
  frame_ = kRecordHeaderBytes + length + kRecordFooterBytes;
  setReadBuffer(reinterpret_cast<uint8_t*>(message), static_cast<uint32_t>(length));
  message_over_ = false;
  return true;
}

bool MessageTransport::peek() {
  if (!message_over_) return unread() > 0;
  begin_ += std::exchange(frame_, 0);
  return end_ > begin_ || Fill(1);
}

uint32_t MessageTransport::readSlow(uint8_t* buf, uint32_t len) {
  if (message_over_ && !ReadFrame()) return 0;
  if (unread() == 0) throw BeyondTheMessage(len, 0);
  const auto some = static_cast<uint32_t>(std::min<size_t>(len, unread()));
  std::memcpy(buf, rBase_, some);
  rBase_ += some;
  return some;
}

// Thrift asks for a whole string before it allocates one.
const uint8_t* MessageTransport::borrowSlow(uint8_t*, uint32_t* len) {
  throw BeyondTheMessage(*len, unread());
}

std::string_view MessageTransport::View(uint32_t size) {
  if (unread() < size) throw BeyondTheMessage(size, unread());
  const std::string_view view(reinterpret_cast<const char*>(rBase_), size);
  consume(size);
  return view;
}

uint32_t MessageTransport::readEnd() {
  resetConsumedMessageSize();
  message_over_ = true;
  if (guarded_) guarded_->EndMessage();
  const size_t left = unread();
  setReadBuffer(rBase_, 0);
  if (left == 0) return 0;
  throw TTransportException(
      TTransportException::UNKNOWN,
      "a message: expected its end, found " + std::to_string(left) + " more bytes in its frame");
}

size_t MessageTransport::head_size() const {
  return static_cast<size_t>(wBase_ - reinterpret_cast<const uint8_t*>(head_.data()));
}

void MessageTransport::SetHead(size_t size) {
  auto* const begin = reinterpret_cast<uint8_t*>(head_.data());
  setWriteBuffer(begin + size, static_cast<uint32_t>(head_.size() - size));
}

// Writes bytes that do not fit into the head.
void MessageTransport::writeSlow(const uint8_t* buf, uint32_t len) {
  const size_t size = head_size();
  if (plain_ && len >= kPieceBytes) {
    pieces_.push_back({.before = size, .data = buf, .size = len});
    return;
  }
  head_.Resize(std::max(size + len, 2 * head_.size()));
  std::memcpy(head_.data() + size, buf, len);
  SetHead(size + len);
}

// Puts the length and the CRCs around what was written.
void MessageTransport::CloseFrame() {
  uint32_t crc = 0;
  uint64_t length = 0;
  const auto add = [&](const void* data, size_t size) {
    crc = Crc32c(data, size, crc);
    length += size;
  };
  size_t at = kRecordHeaderBytes;
  for (const Piece& piece : pieces_) {
    add(head_.data() + at, piece.before - at);
    add(piece.data, piece.size);
    at = piece.before;
  }
  add(head_.data() + at, head_size() - at);
  char footer[kRecordFooterBytes];
  io::StoreU32(footer, MaskCrc(crc));
  write(reinterpret_cast<const uint8_t*>(footer), sizeof footer);
  io::StoreU64(head_.data(), length);
  io::StoreU32(head_.data() + 8, MaskedCrc32c(head_.data(), 8));
}

void MessageTransport::SendPieces() {
  std::vector<iovec> parts;
  size_t at = 0;
  const auto head_until = [&](size_t end) {
    if (end > at) parts.push_back({.iov_base = head_.data() + at, .iov_len = end - at});
    at = end;
  };
  for (const Piece& piece : pieces_) {
    head_until(piece.before);
    parts.push_back({.iov_base = const_cast<uint8_t*>(piece.data), .iov_len = piece.size});
  }
  head_until(head_size());
  for (const iovec& part : parts) bytes_.out += part.iov_len;
  SendAll(plain_->getSocketFD(), parts);
}

void MessageTransport::Send() {
  if (plain_) return SendPieces();
  const auto size = static_cast<uint32_t>(head_size());
  bytes_.out += size;
  socket_->write(reinterpret_cast<const uint8_t*>(head_.data()), size);
  socket_->flush();
}

void MessageTransport::flush() {
  CloseFrame();
  try {
    Send();
  } catch (...) {  // the message is sent in part, so no other message can follow it
    close();
    throw;
  }
  pieces_.clear();
  SetHead(kRecordHeaderBytes);
  if (std::exchange(close_after_reply_, false)) socket_->close();
}

void MessageTransport::close() {
  pieces_.clear();
  SetHead(kRecordHeaderBytes);
  socket_->close();
}

void MessageTransport::SetLimits(const ConnectionLimits& limits) {
  max_message_ = limits.max_message;
  if (guarded_) return guarded_->SetLimits(limits);
  // A TLS socket limits the time of each read, not of a message.
  auto* other = dynamic_cast<TSocket*>(socket_.get());
  if (other) other->setRecvTimeout(limits.idle_ms);
}

}  // namespace millrace::ps
