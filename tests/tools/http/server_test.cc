// SPDX-License-Identifier: Apache-2.0
#include "tools/http/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace millrace::http {
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
  std::string ReceiveSome() const {
    char bytes[4096];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    return {bytes, static_cast<size_t>(std::max<ssize_t>(0, got))};
  }
  std::string Request(const std::string& request) const {
    Send(request);
    return Receive();
  }

 private:
  int fd_;
};

// Replies with the frame that it gets; "end" is the last one.
class EchoFrames final : public FrameSession {
 public:
  bool Handle(std::string_view message, std::string& out) override {
    out += {'\0', '\0', '\0', static_cast<char>(message.size())};
    out += message;
    return message != "end";
  }
};

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(ServerOptions options) {
    server_.reset();
    auto server = Server::Start(options, [this](http::Request& request, Response& response) {
      if (request.method == "POST") {
        response.body = "body " + request.body;
      } else if (request.path == "/large") {
        response.body = std::string(20 << 20, 'x');
      } else if (request.path == "/slow") {
        std::unique_lock lock(mu_);
        slow_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return go_on_; });
        response.body = "slow";
      } else {
        response.code = request.path == "/" ? 200 : 404;
        response.body = "path " + std::string(request.path);
      }
    });
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  void StartWith(Limits limits) { Start({.limits = limits}); }
  std::string Request(const std::string& request) const {
    return Client(server_->port()).Request(request);
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool slow_ = false, go_on_ = false;  // guarded by mu_
  std::unique_ptr<Server> server_;
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
  EXPECT_TRUE(Request("GET /\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request("GET / HTTP/9.9\r\n\r\n").starts_with("HTTP/1.1 400"));
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
  EXPECT_EQ(code("Host: localhost\r\n .evil.com"), "403");
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
  StartWith({.pending_bytes = 30 << 20});
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
  StartWith({.connections = 4, .request_ms = 300});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(std::make_unique<Client>(server_->port()));
    slow.back()->Send("GET / HT");
  }
  EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\n") + kHost).starts_with("HTTP/1.1 200"));
  // The oldest were closed for the newest; those that were left get a response.
  for (size_t i = 0; i < slow.size(); ++i) {
    const std::string response = slow[i]->Receive();
    EXPECT_TRUE(i < 6 ? response.empty() : response.empty() || response.starts_with("HTTP/1.1 408"))
        << i << response;
  }
  EXPECT_EQ(server_->closed_early(), 10);
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
  const auto second = Server::Start({.port = server_->port()}, nullptr);
  EXPECT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(std::to_string(server_->port())), std::string::npos);
}

constexpr Limits kKeepAlive = {.body_bytes = 1000, .idle_ms = 20000};

std::string Post(const std::string& body, const std::string& headers = "") {
  return "POST / HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

TEST_F(HttpServerTest, PipelinedRequestsAreServedInOrderHoweverTheyAreCut) {
  StartWith(kKeepAlive);
  std::string requests;
  for (int i = 0; i < 20; ++i) requests += Post("<" + std::to_string(i) + ">");
  requests += Post("<last>", "Connection: close\r\n");
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, requests.size()}) {
    const Client client(server_->port());
    for (size_t at = 0; at < requests.size(); at += piece) client.Send(requests.substr(at, piece));
    const std::string responses = client.Receive();
    EXPECT_EQ(CountOf(responses, "HTTP/1.1 200 OK"), 21) << piece;
    size_t at = 0;
    for (int i = 0; i < 20; ++i) {
      at = responses.find("body <" + std::to_string(i) + ">", at);
      ASSERT_NE(at, responses.npos) << i << responses;
    }
    EXPECT_TRUE(responses.ends_with("body <last>")) << responses;
  }
}

TEST_F(HttpServerTest, BodiesAreBoundedAndOthersGoOn) {
  StartWith(kKeepAlive);
  EXPECT_TRUE(
      Request(Post(std::string(1000, 'x'), "Connection: close\r\n")).starts_with("HTTP/1.1 200"));
  const std::string huge = Request(Post(std::string(1001, 'x')));
  EXPECT_TRUE(huge.starts_with("HTTP/1.1 413")) << huge;
  EXPECT_NE(huge.find("1000 bytes"), huge.npos) << huge;
  // Far more than the client could send without a reader.
  EXPECT_TRUE(Request(Post(std::string(8 << 20, 'x'))).starts_with("HTTP/1.1 413"));
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  EXPECT_TRUE(Request(chunked + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").ends_with("body abcde"));
  EXPECT_TRUE(Request(chunked + "zz\r\nabc\r\n0\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request(chunked + "ffffffffffffffffff\r\nabc").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(Request(chunked + "7d0\r\n" + std::string(2000, 'x')).starts_with("HTTP/1.1 413"));
}

TEST_F(HttpServerTest, ClientsThatAskGetContinue) {
  StartWith(kKeepAlive);
  const Client client(server_->port());
  client.Send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(client.ReceiveSome(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_TRUE(client.Receive().ends_with("body abc"));
}

TEST_F(HttpServerTest, RequestsAreRefusedBeforeTheirBodyIsRead) {
  Start({.check_head =
             [](const http::Request& request) {
               return request.authorization == "Bearer x" ? 0 : 401;
             },
         .limits = kKeepAlive});
  // The body never comes.
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n";
  const std::string response = Request(head + "\r\n");
  EXPECT_TRUE(response.starts_with("HTTP/1.1 401")) << response;
  EXPECT_NE(response.find("WWW-Authenticate: Bearer\r\n"), response.npos) << response;
  const Client client(server_->port());
  client.Send(head + "Authorization: Bearer x\r\nConnection: close\r\n\r\nabc");
  EXPECT_TRUE(client.Receive().ends_with("body abc"));
}

TEST_F(HttpServerTest, ErrorsForProgramsAreJson) {
  Start({.for_programs = true});
  const std::string response = Request("no request\r\n\r\n");
  EXPECT_NE(response.find("Content-Type: application/json\r\n"), response.npos) << response;
  EXPECT_NE(response.find("\r\n\r\n{\"error\":\""), response.npos) << response;
}

TEST_F(HttpServerTest, FramesShareThePort) {
  Start({.limits = {.body_bytes = 100, .idle_ms = 20000},
         .frames = [] { return std::make_unique<EchoFrames>(); }});
  const auto frame = [](const std::string& text) {
    return std::string{'\0', '\0', '\0', static_cast<char>(text.size())} + text;
  };
  const std::string frames = frame("one") + frame("two") + frame(std::string(100, 'x'));
  for (const size_t piece : {size_t{1}, size_t{5}, frames.size()}) {
    const Client client(server_->port());
    for (size_t at = 0; at < frames.size(); at += piece) client.Send(frames.substr(at, piece));
    EXPECT_EQ(client.Request(frame("end") + frame("not any more")), frames + frame("end"));
  }
  // Too long, or empty: closed without a reply. Others go on.
  EXPECT_EQ(Request(frame("one") + frame(std::string(101, 'x'))), frame("one"));
  EXPECT_EQ(Request(std::string(4, '\0')), "");
  EXPECT_TRUE(Request(std::string("GET / HTTP/1.1\r\nConnection: close\r\n") + kHost)
                  .starts_with("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, DrainCompletesRequestsThatHaveBegun) {
  Start({.threads = 2, .limits = kKeepAlive});
  const Client idle(server_->port());
  const Client busy(server_->port());
  busy.Send(std::string("GET /slow HTTP/1.1\r\n") + kHost);
  const Client half(server_->port());
  half.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na");
  {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return slow_; });
  }
  const uint16_t port = server_->port();
  std::jthread drain([&] { server_->Drain(20000); });
  EXPECT_EQ(idle.Receive(), "");  // after a second
  {
    const std::lock_guard lock(mu_);
    go_on_ = true;
  }
  changed_.notify_all();
  const std::string slow = busy.Receive();
  EXPECT_TRUE(slow.ends_with("slow")) << slow;
  EXPECT_NE(slow.find("Connection: close"), slow.npos) << slow;
  half.Send("bc");
  EXPECT_TRUE(half.Receive().ends_with("body abc"));
  drain.join();
  EXPECT_EQ(server_->connections(), 0);
  EXPECT_TRUE(Server::Start({.port = port}, nullptr).ok());
}

TEST_F(HttpServerTest, BearerTokens) {
  EXPECT_TRUE(IsBearer("Bearer secret", "secret"));
  EXPECT_TRUE(IsBearer("bearer secret", "secret"));
  for (const char* given : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret ",
                            "Basic secret", "Bearer Secret", "secret"})
    EXPECT_FALSE(IsBearer(given, "secret")) << given;
}

}  // namespace
}  // namespace millrace::http
