// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/trace.h"

namespace millrace::dashboard {
namespace {

using Clock = std::chrono::steady_clock;

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

// A name of this host, alone or with a port: any port, since a tunnel may have another one.
bool IsLocalHost(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (!host.starts_with(name)) continue;
    const std::string_view rest = host.substr(name.size());
    return rest.empty() || (rest[0] == ':' && IsPort(rest.substr(1)));
  }
  return false;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The value of the header `name` (in lower case). Nothing if it is absent or occurs twice.
std::string_view HeaderOf(std::string_view head, std::string_view name) {
  std::string_view value;
  bool is_known = false;
  for (size_t line = head.find('\n'); line != std::string_view::npos;
       line = head.find('\n', line + 1)) {
    const std::string_view rest = head.substr(line + 1);
    if (rest.size() <= name.size() || rest[name.size()] != ':') continue;
    const bool same = std::equal(name.begin(), name.end(), rest.begin(),
                                 [](char a, char b) { return a == (b | 0x20); });
    if (!same) continue;
    if (std::exchange(is_known, true)) return {};
    value = Trimmed(rest.substr(name.size() + 1, rest.find('\n') - name.size() - 1));
  }
  return value;
}

// Whether a header continues on the next line, an old form that hides the end of its value.
bool HasFoldedLines(std::string_view head) {
  return head.find("\n ") != std::string_view::npos || head.find("\n\t") != std::string_view::npos;
}

HttpResponse Refuse(int code) { return {.code = code, .body = std::string(Reason(code)) + "\n"}; }

// One client, from the first byte of its request to the last byte of the response.
struct Connection {
  int fd = -1;
  Clock::time_point deadline;
  std::string request;
  std::string response;
  size_t sent = 0;

  bool responding() const { return !response.empty(); }
};

// "GET /path?query HTTP/1.1" and headers.
HttpResponse Respond(std::string_view head, const HttpServer::Handler& handler, bool& body_wanted) {
  std::string_view line = Trimmed(head.substr(0, head.find('\n')));
  const size_t space = line.find(' ');
  const size_t end = line.rfind(" HTTP/1.");
  if (space == std::string_view::npos || end == std::string_view::npos || end <= space)
    return Refuse(400);
  const std::string_view method = line.substr(0, space);
  std::string_view path = line.substr(space + 1, end - space - 1);
  path = path.substr(0, path.find_first_of("?#"));
  body_wanted = method != "HEAD";
  if (method != "GET" && method != "HEAD") return Refuse(405);
  if (path.empty() || path[0] != '/' || HasFoldedLines(head)) return Refuse(400);
  if (!IsLocalHost(HeaderOf(head, "host"))) return Refuse(403);
  return handler(std::string(path));
}

std::string ResponseText(const HttpResponse& response, bool body_wanted) {
  std::string text = "HTTP/1.1 " + std::to_string(response.code) + " " + Reason(response.code) +
                     "\r\nContent-Type: " + response.type +
                     "\r\nContent-Length: " + std::to_string(response.body.size()) +
                     "\r\nContent-Security-Policy: " + response.policy +
                     "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
                     "\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer"
                     "\r\nCross-Origin-Resource-Policy: same-origin"
                     "\r\nCross-Origin-Opener-Policy: same-origin"
                     "\r\nConnection: close\r\n\r\n";
  if (body_wanted) text += response.body;
  return text;
}

// Receives bytes, and makes the response when the head is complete. False: the connection is done.
bool Receive(Connection& c, const HttpServer::Handler& handler, const HttpLimits& limits) {
  char bytes[4096];
  const ssize_t got = ::recv(c.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  c.request.append(bytes, static_cast<size_t>(got));
  const size_t end = c.request.find("\r\n\r\n");
  if (end == std::string::npos && c.request.size() <= limits.request_bytes) return true;
  if (end == std::string::npos || end > limits.request_bytes) {
    c.response = ResponseText(Refuse(431), true);
  } else {
    bool body_wanted = true;
    const HttpResponse response =
        Respond(std::string_view(c.request).substr(0, end), handler, body_wanted);
    c.response = ResponseText(response, body_wanted);
  }
  c.deadline = Clock::now() + std::chrono::milliseconds(limits.response_ms);
  return true;
}

bool Send(Connection& c) {
  const ssize_t sent = ::send(c.fd, c.response.data() + c.sent, c.response.size() - c.sent,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  c.sent += static_cast<size_t>(sent);
  return c.sent < c.response.size();
}

// Closes the oldest connections until the responses of the rest fit; the newest one stays.
void CloseOldest(std::vector<Connection>& connections, size_t pending_bytes) {
  size_t sum = 0;
  for (const Connection& c : connections) sum += c.response.size();
  while (sum > pending_bytes && connections.size() > 1) {
    sum -= connections.front().response.size();
    ::close(connections.front().fd);
    connections.erase(connections.begin());
  }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(uint16_t port, Handler handler,
                                                      HttpLimits limits) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return IoError("cannot make a socket", errno);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 64) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int error = errno;
    ::close(listener);
    return IoError("cannot listen on 127.0.0.1:" + std::to_string(port), error);
  }
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return std::make_unique<HttpServer>(Private{}, listener, wake, ntohs(address.sin_port),
                                      std::move(handler), limits);
}

HttpServer::HttpServer(Private, int listener, int wake, uint16_t port, Handler handler,
                       HttpLimits limits)
    : listener_(listener),
      wake_(wake),
      port_(port),
      handler_(std::move(handler)),
      limits_(limits),
      thread_([this](const std::stop_token& stop) { Serve(stop); }) {}

HttpServer::~HttpServer() {
  thread_.request_stop();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  thread_.join();
  ::close(listener_);
  ::close(wake_);
}

void HttpServer::Serve(const std::stop_token& stop) {
  profiler::NameThread("dashboard");
  // Signals are handled by the other threads of the program.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<Connection> connections;
  std::vector<pollfd> polled;
  while (!stop.stop_requested()) {
    polled.assign({{listener_, POLLIN, 0}, {wake_, POLLIN, 0}});
    auto next = Clock::now() + std::chrono::hours(1);
    for (const Connection& c : connections) {
      polled.push_back({c.fd, static_cast<short>(c.responding() ? POLLOUT : POLLIN), 0});
      next = std::min(next, c.deadline);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(0, wait)));
    const auto now = Clock::now();
    for (size_t i = 0; i < connections.size(); ++i) {
      Connection& c = connections[i];
      bool alive = now < c.deadline;
      if (alive && polled[i + 2].revents != 0)
        alive = c.responding() ? Send(c) : Receive(c, handler_, limits_);
      if (alive) continue;
      ::close(c.fd);
      c.fd = -1;
    }
    std::erase_if(connections, [](const Connection& c) { return c.fd < 0; });
    CloseOldest(connections, limits_.pending_bytes);
    if (polled[0].revents == 0) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    if (connections.size() >= limits_.connections) {
      ::close(connections.front().fd);
      connections.erase(connections.begin());
    }
    connections.push_back({.fd = fd,
                           .deadline = now + std::chrono::milliseconds(limits_.request_ms),
                           .request = {},
                           .response = {}});
  }
  for (const Connection& c : connections) ::close(c.fd);
}

}  // namespace millrace::dashboard
