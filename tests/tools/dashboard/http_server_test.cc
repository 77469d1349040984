// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

namespace millrace::dashboard {
namespace {

class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval timeout{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  ~Client() { ::close(fd_); }
  void Send(const std::string& text) const { ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // All bytes until the server closes the connection.
  std::string Receive() const {
    std::string text;
    char bytes[4096];
    for (ssize_t got; (got = ::recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      text.append(bytes, static_cast<size_t>(got));
    return text;
  }
  std::string Request(const std::string& request) const {
    Send(request);
    return Receive();
  }

 private:
  int fd_;
};

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(HttpLimits limits) {
    auto server = HttpServer::Start(
        0,
        [](const std::string& path) {
          if (path == "/large") return HttpResponse{.body = std::string(20 << 20, 'x')};
          return HttpResponse{.code = path == "/" ? 200 : 404, .body = "path " + path};
        },
        limits);
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  std::string Request(const std::string& request) const {
    return Client(server_->port()).Request(request);
  }

  std::unique_ptr<HttpServer> server_;
};

constexpr char kHost[] = "Host: localhost\r\n\r\n";

TEST_F(HttpServerTest, RespondsAndCloses) {
  const std::string response = Request(std::string("GET /?x=1 HTTP/1.1\r\n") + kHost);
  EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n")) << response;
  EXPECT_TRUE(response.ends_with("\r\n\r\npath /")) << response;
  EXPECT_TRUE(Request(std::string("GET /no HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 404"));
  const std::string head = Request(std::string("HEAD / HTTP/1.1\r\n") + kHost);
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(HttpServerTest, MalformedRequestsAndOtherHostsAreRefused) {
  EXPECT_TRUE(Request("\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request("GET\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request(std::string("GET x HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request(std::string("POST / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(Request("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(Request("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
  EXPECT_TRUE(Request("GET / HTTP/1.1\r\n" + std::string(20000, 'a')).starts_with("HTTP/1.1 431"));
  EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, OnlyExactNamesOfThisHostAreServed) {
  const auto code = [&](const std::string& headers) {
    return Request("GET / HTTP/1.1\r\n" + headers + "\r\n\r\n").substr(9, 3);
  };
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1:1", "[::1]", "[::1]:65535"})
    EXPECT_EQ(code(std::string("Host: ") + host), "200") << host;
  for (const char* host :
       {"[::1].evil.com", "[::1]evil.com", "[::1]:80.evil.com", "localhost.evil.com",
        "localhost:evil.com", "localhost:", "localhost:99999", "localhost:-1", "127.0.0.1.evil.com",
        "127.0.0.1:80@evil.com", "evil.com:127.0.0.1", "localhost evil.com", "user@localhost", ""})
    EXPECT_EQ(code(std::string("Host: ") + host), "403") << host;
  EXPECT_EQ(code("Host: localhost\r\nHost: evil.com"), "403");
  EXPECT_EQ(code("Host: localhost\r\n .evil.com"), "400");
}

TEST_F(HttpServerTest, ResponsesForbidFramesScriptsAndOtherOrigins) {
  for (const char* path : {"/", "/no"}) {
    const std::string response = Request("GET " + std::string(path) + " HTTP/1.1\r\n" + kHost);
    for (const char* header :
         {"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n",
          "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
          "X-Frame-Options: DENY\r\n", "Cross-Origin-Resource-Policy: same-origin\r\n"})
      EXPECT_NE(response.find(header), std::string::npos) << header << response;
  }
}

TEST_F(HttpServerTest, PendingResponsesAreBounded) {
  server_.reset();
  Start({.pending_bytes = 30 << 20});
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<Client>(server_->port()));
    idle.back()->Send(std::string("GET /large HTTP/1.1\r\n") + kHost);
    EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 200"));
  }
  EXPECT_LT(idle[0]->Receive().size(), size_t{20} << 20);
  EXPECT_GT(idle[3]->Receive().size(), size_t{20} << 20);
}

TEST_F(HttpServerTest, SlowClientsBlockNobodyAndAreDropped) {
  server_.reset();
  Start({.connections = 4, .request_ms = 300});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(std::make_unique<Client>(server_->port()));
    slow.back()->Send("GET / HT");
  }
  EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 200"));
  for (const auto& client : slow) EXPECT_EQ(client->Receive(), "");
}

TEST_F(HttpServerTest, ClientsThatDoNotReadDoNotBlockOthers) {
  const Client idle(server_->port());
  idle.Send(std::string("GET /large HTTP/1.1\r\n") + kHost);
  EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 200"));
  EXPECT_GT(idle.Receive().size(), size_t{20} << 20);
}

TEST_F(HttpServerTest, EndsWhileClientsAreConnected) {
  const Client idle(server_->port());
  server_.reset();
  EXPECT_EQ(idle.Receive(), "");
}

TEST_F(HttpServerTest, PortInUseIsAnError) {
  const auto second = HttpServer::Start(server_->port(), nullptr);
  EXPECT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(std::to_string(server_->port())), std::string::npos);
}

}  // namespace
}  // namespace millrace::dashboard
