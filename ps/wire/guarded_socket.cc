// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/guarded_socket.h"

#include <thrift/TOutput.h>

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

using apache::thrift::transport::SSLProtocol;
using apache::thrift::transport::TSSLSocketFactory;

std::shared_ptr<TSSLSocketFactory> MakeTlsFactory(const TlsFiles& files, bool server) {
  auto factory = std::make_shared<TSSLSocketFactory>(SSLProtocol::SSLTLS);
  factory->server(server);
  factory->authenticate(true);
  factory->loadCertificate(files.cert.c_str());
  factory->loadPrivateKey(files.key.c_str());
  factory->loadTrustedCertificates(files.ca.c_str());
  return factory;
}

void SilenceThrift() {
  apache::thrift::GlobalOutput.setOutputFunction([](const char*) {});
}

}  // namespace millrace::ps
