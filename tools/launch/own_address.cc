#include "tools/launch/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/launch/plan/address.h"

namespace millrace::tools {
namespace {

std::string TextOf(const sockaddr* address) {
  char text[INET_ADDRSTRLEN] = {};
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  ::inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  return text;
}

std::string AddressOfName(const std::string& name) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::string text = TextOf(found->ai_addr);
  ::freeaddrinfo(found);
  return IsLoopback(text) ? "" : text;
}

std::string AddressOfInterface() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "";
  std::string text;
  for (const ifaddrs* one = all; one != nullptr && text.empty(); one = one->ifa_next) {
    const bool is_usable = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (is_usable && one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET)
      text = TextOf(one->ifa_addr);
  }
  ::freeifaddrs(all);
  return text;
}

}  // namespace

std::string OwnAddress(bool one_host) {
  if (one_host) return "127.0.0.1";
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  if (const std::string text = AddressOfName(name); !text.empty()) return text;
  const std::string text = AddressOfInterface();
  return text.empty() ? name : text;
}

}  // namespace millrace::tools
