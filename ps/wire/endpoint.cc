// SPDX-License-Identifier: Apache-2.0
#include "ps/wire/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

namespace millrace::ps {

Result<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort result;
  if (colon != text.npos && colon > 0) {
    std::string_view host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
      host = host.substr(1, host.size() - 2);
    }
    const std::string_view port = text.substr(colon + 1);
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), result.port);
    result.host = host;
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == port.data() + port.size();
    if (is_number && result.port >= 0 && result.port <= 65535) return result;
  }
  return Invalid("expected HOST:PORT, found '" + std::string(text) + "'");
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4 = {};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6 = {};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Status TlsFiles::Validate() const {
  if (cert.empty() == key.empty() && key.empty() == ca.empty()) return {};
  return Invalid("TLS: expected all of tls_cert, tls_key and tls_ca, or none");
}

}  // namespace millrace::ps
