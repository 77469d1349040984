// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/message_transport.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thrift/transport/TSSLSocket.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>
#include <utility>

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
// Thrift counts some of what is read and not the rest; received_ is what counts here.
constexpr int kNoLimit = INT_MAX;

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
  SetHead(0);
}

void MessageTransport::StartMessage() {
  // A message that did not fit is likely to be followed by another one of its size.
  const size_t whole = received_ + kLeastRead;
  if (!kept_.empty() && unread() == 0 && whole > in_.size() && whole <= kMostKept) {
    in_ = {};
    in_.Resize(whole);
  }
  message_over_ = false;
  views_ = false;
  kept_.clear();
  received_ = unread();
  if (unread() == 0) setReadBuffer(reinterpret_cast<uint8_t*>(in_.data()), 0);
}

uint32_t MessageTransport::Receive(uint8_t* to, size_t room) {
  const uint32_t got = socket_->read(to, static_cast<uint32_t>(std::min(room, kMostRead)));
  bytes_.in += got;
  received_ += got;
  if (received_ > max_message_) {
    throw TTransportException(TTransportException::CORRUPTED_DATA,
                              "a message has more than " + std::to_string(max_message_) + " bytes");
  }
  return got;
}

// Room for `wanted` unread bytes in all, without moving any that a view shows.
void MessageTransport::MakeRoom(size_t wanted) {
  const size_t have = unread();
  const size_t room =
      in_.size() - static_cast<size_t>(rBound_ - reinterpret_cast<uint8_t*>(in_.data()));
  if (have + room >= wanted && room >= kLeastRead) return;
  const size_t needed = std::max(std::max(wanted, have) + kLeastRead, kBufferBytes);
  if (!views_ && needed <= in_.size()) {
    std::memmove(in_.data(), rBase_, have);
  } else {
    RawBuffer fresh;
    fresh.Resize(needed);
    std::memcpy(fresh.data(), rBase_, have);
    std::swap(in_, fresh);
    if (views_) kept_.push_back(std::move(fresh));
    views_ = false;
  }
  setReadBuffer(reinterpret_cast<uint8_t*>(in_.data()), static_cast<uint32_t>(have));
}

// Some more bytes behind the unread ones, of which `wanted` are going to be needed in all. False
// at the connection's end.
bool MessageTransport::Fill(size_t wanted) {
  if (message_over_) StartMessage();
  MakeRoom(wanted);
  const auto* end = reinterpret_cast<const uint8_t*>(in_.data()) + in_.size();
  const uint32_t got = Receive(rBound_, static_cast<size_t>(end - rBound_));
  rBound_ += got;
  return got > 0;
}

bool MessageTransport::peek() { return unread() > 0 || Fill(1); }

uint32_t MessageTransport::readSlow(uint8_t* buf, uint32_t len) {
  if (message_over_) StartMessage();
  if (unread() == 0 && len >= kBufferBytes) return Receive(buf, len);
  if (unread() == 0 && !Fill(1)) return 0;
  const auto some = static_cast<uint32_t>(std::min<size_t>(len, unread()));
  std::memcpy(buf, rBase_, some);
  rBase_ += some;
  return some;
}

std::string_view MessageTransport::View(uint32_t size) {
  if (message_over_) StartMessage();
  while (unread() < size) {
    if (!Fill(std::min<size_t>(size, 2 * unread() + kBufferBytes)))
      throw TTransportException(TTransportException::END_OF_FILE, "the connection was closed");
  }
  const std::string_view view(reinterpret_cast<const char*>(rBase_), size);
  consume(size);
  views_ = true;
  return view;
}

uint32_t MessageTransport::readEnd() {
  resetConsumedMessageSize();
  message_over_ = true;
  if (guarded_) guarded_->EndMessage();
  return 0;
}

size_t MessageTransport::head_size() const {
  return static_cast<size_t>(wBase_ - reinterpret_cast<const uint8_t*>(head_.data()));
}

void MessageTransport::SetHead(size_t size) {
  auto* const begin = reinterpret_cast<uint8_t*>(head_.data());
  setWriteBuffer(begin + size, static_cast<uint32_t>(head_.size() - size));
}

// What does not fit behind the rest of the head.
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
  try {
    Send();
  } catch (...) {  // with a part of the message sent, nothing else can follow it
    close();
    throw;
  }
  pieces_.clear();
  SetHead(0);
  if (std::exchange(close_after_reply_, false)) socket_->close();
}

void MessageTransport::close() {
  pieces_.clear();
  SetHead(0);
  socket_->close();
}

void MessageTransport::SetLimits(const ConnectionLimits& limits) {
  max_message_ = limits.max_message;
  if (guarded_) return guarded_->SetLimits(limits);
  // A TLS socket: its own time limit is one for each read.
  auto* other = dynamic_cast<TSocket*>(socket_.get());
  if (other) other->setRecvTimeout(limits.idle_ms);
}

}  // namespace millrace::ps
