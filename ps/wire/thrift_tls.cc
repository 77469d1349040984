#include "ps/wire/thrift_tls.h"

#include <thrift/TOutput.h>

namespace millrace::ps {

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
