// Set-up of Thrift that servers and workers share.
#pragma once

#include <thrift/transport/TSSLSocket.h>

#include <memory>

#include "ps/wire/endpoint.h"

namespace millrace::ps {

// Mutual TLS, version 1.2 or later. Throws what Thrift throws when a file is not what it should be.
std::shared_ptr<apache::thrift::transport::TSSLSocketFactory> MakeTlsFactory(const TlsFiles& files,
                                                                             bool server);

// Thrift prints every broken connection to standard error; ours are reported where they matter.
void SilenceThrift();

}  // namespace millrace::ps
