#include "tools/launch/plan/address.h"

#include <charconv>

namespace millrace::tools {

std::string JoinHostPort(std::string_view host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string_view::npos;
  const std::string text(host);
  return (is_ipv6 ? "[" + text + "]" : text) + ":" + std::to_string(port);
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string HostOfDestination(std::string_view destination) {
  const size_t at = destination.rfind('@');
  return std::string(at == std::string_view::npos ? destination : destination.substr(at + 1));
}

std::optional<uint16_t> AnnouncedPort(std::string_view line, size_t index, size_t num_ps) {
  const std::string head = "millrace-ps: shard " + std::to_string(index) + " of " +
                           std::to_string(num_ps) + " listening on ";
  if (!line.starts_with(head)) return std::nullopt;
  const size_t colon = line.rfind(':');
  if (colon <= head.size()) return std::nullopt;
  const std::string_view digits = line.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
  if (error != std::errc() || end != digits.end() || port == 0) return std::nullopt;
  return port;
}

}  // namespace millrace::tools
