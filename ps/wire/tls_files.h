// The files of mutual TLS.
#pragma once

#include <string>

#include "io/base/status.h"

namespace millrace::ps {

// PEM files. All or none: each side shows a certificate and checks the other's against `ca`.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;

  bool enabled() const { return !cert.empty(); }
  Status Validate() const {
    if (cert.empty() == key.empty() && key.empty() == ca.empty()) return {};
    return Invalid("TLS: expected all of --tls_cert, --tls_key and --tls_ca, or none");
  }
};

}  // namespace millrace::ps
