// "HOST:PORT" texts, and the line by which a server says where it listens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::tools {

// "10.0.0.1:80", "[::1]:80"
std::string JoinHostPort(std::string_view host, uint16_t port);

// Whether `host` names this machine to itself alone: localhost, 127.x.y.z, ::1.
bool IsLoopback(std::string_view host);

// The host of an ssh destination: "node" of "me@node".
std::string HostOfDestination(std::string_view destination);

// The port in "millrace-ps: shard I of S listening on HOST:PORT", if `line` is that, word for word
// and with these numbers.
std::optional<uint16_t> AnnouncedPort(std::string_view line, size_t index, size_t num_ps);

}  // namespace millrace::tools
