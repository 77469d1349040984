#include "ps/wire/guarded_socket.h"

#include <algorithm>

namespace millrace::ps {

using apache::thrift::transport::TSocket;
using apache::thrift::transport::TTransportException;
using std::chrono::steady_clock;

uint32_t GuardedSocket::read(uint8_t* buf, uint32_t len) {
  if (in_message_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - steady_clock::now());
    if (left.count() <= 0) {
      throw TTransportException(TTransportException::TIMED_OUT, "a message took too long");
    }
    recvTimeout_ = static_cast<int>(left.count());
  } else {
    recvTimeout_ = limits_.idle_ms;
  }
  const uint32_t size = TSocket::read(buf, len);
  if (!in_message_ && size > 0) {
    in_message_ = true;
    deadline_ = steady_clock::now() + std::chrono::milliseconds(limits_.message_ms);
  }
  return size;
}

std::shared_ptr<TSocket> GuardedServerSocket::createSocket(THRIFT_SOCKET socket) {
  return std::make_shared<GuardedSocket>(socket, pChildInterruptSockReader_);
}

uint32_t MessageTransport::readEnd() {
  resetConsumedMessageSize();
  if (auto* socket = dynamic_cast<GuardedSocket*>(&counting_->inner())) socket->EndMessage();
  return 0;
}

void MessageTransport::flush() {
  TBufferedTransport::flush();
  if (!close_after_reply_) return;
  close_after_reply_ = false;
  counting_->close();
}

void MessageTransport::SetLimits(const ConnectionLimits& limits) {
  auto* socket = dynamic_cast<GuardedSocket*>(&counting_->inner());
  if (socket) return socket->SetLimits(limits);
  // A TLS socket: its own time limit is one for each read.
  auto* other = dynamic_cast<TSocket*>(&counting_->inner());
  if (other) other->setRecvTimeout(limits.idle_ms);
}

}  // namespace millrace::ps
