// SPDX-License-Identifier: Apache-2.0
// What peers can do to a real server over a socket.
#include "ps/server/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "io/base/random.h"
#include "ps/worker/thrift_transport.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class ConnectionTest : public ServerTest {};

TEST_F(ConnectionTest, HugeClaimedSizeEndsTheConnectionWithoutUsingMemory) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const long before_kb = PeakKb();
  for (int i = 0; i < 20; ++i) {
    // A strict binary call to a method whose name has 1.8 GB.
    const unsigned char call[] = {0x80, 0x01, 0x00, 0x01, 0x6b, 0x49, 0xd2, 0x00, 'j', 'o', 'i'};
    const int fd = Connect();
    ASSERT_EQ(::send(fd, call, sizeof call, 0), static_cast<ssize_t>(sizeof call));
    EXPECT_TRUE(Closes(fd, milliseconds(5000)));
    ::close(fd);
  }
  // Allocating one claimed size would take 1.8 GB; 20 threads take up to 70 MB under a sanitizer.
  EXPECT_LT(PeakKb() - before_kb, 256 << 10);
  ExpectServes(*store);
}

// A call before joining that repeats its fields without end.
TEST_F(ConnectionTest, EndlessMessageEndsTheConnectionWithoutUsingMemory) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const long before_kb = PeakKb();
  const int fd = Connect();
  const std::string begin(
      "\x80\x01\x00\x01\x00\x00\x00\x08"
      "exchange\x00\x00\x00\x01\x0c\x00\x01",
      23);
  std::string fields("\x0b\x00\x07\x00\x00\x00\x01x", 8);
  for (int i = 0; i < 5000; ++i) fields += std::string("\x0a\x00\x63\0\0\0\0\0\0\0\0", 11);
  ASSERT_EQ(::send(fd, begin.data(), begin.size(), 0), static_cast<ssize_t>(begin.size()));
  size_t sent = 0;
  constexpr size_t kMost = size_t{256} << 20;
  while (sent < kMost) {
    const ssize_t some = ::send(fd, fields.data(), fields.size(), MSG_NOSIGNAL);
    if (some < static_cast<ssize_t>(fields.size())) break;
    sent += static_cast<size_t>(some);
  }
  EXPECT_LT(sent, kMost) << "the server should close the connection";
  ::close(fd);
  EXPECT_LT(PeakKb() - before_kb, 64 << 10);
  ExpectServes(*store);
}

TEST_F(ConnectionTest, RandomBytesEndTheConnection) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    std::string noise(1 + random.Below(3000), '\0');
    for (char& c : noise) c = static_cast<char>(random.Next());
    const int fd = Connect();
    ASSERT_GT(::send(fd, noise.data(), noise.size(), MSG_NOSIGNAL), 0);
    ::shutdown(fd, SHUT_WR);
    EXPECT_TRUE(Closes(fd, milliseconds(5000)));
    ::close(fd);
  }
  ExpectServes(*store);
}

TEST_F(ConnectionTest, SilentPartialAndSlowMessagesEndTheConnection) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const int silent = Connect(), half = Connect(), slow = Connect();
  ASSERT_EQ(::send(half, "\x80\x01", 2, 0), 2);
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  const std::string call("\x80\x01\x00\x01\x00\x00\x20\x00", 8);
  bool cut = false;
  for (size_t i = 0; !cut && steady_clock::now() < deadline; ++i) {
    const char byte = i < call.size() ? call[i] : 'x';
    cut = ::send(slow, &byte, 1, MSG_NOSIGNAL) < 0 || Closes(slow, milliseconds(50));
  }
  EXPECT_TRUE(cut);
  EXPECT_TRUE(Closes(silent, milliseconds(5000)));
  EXPECT_TRUE(Closes(half, milliseconds(5000)));
  for (const int fd : {silent, half, slow}) ::close(fd);
  ExpectServes(*store);
}

// Unauthenticated peers have more time than the worker tries to join, and reconnect when they are
// closed.
TEST_F(ConnectionTest, WorkerJoinsAServerFullOfUnauthenticatedPeers) {
  options_.authenticate_ms = 60000;
  std::atomic<size_t> notes = 0;
  options_.shard.on_note = [&](const std::string&) { ++notes; };
  StartServer(1);
  const auto half_a_message = [&] {
    const int fd = Connect();
    EXPECT_EQ(::send(fd, "\x80", 1, MSG_NOSIGNAL), 1);
    return fd;
  };
  std::vector<int> peers;
  for (int i = 0; i < 300; ++i) peers.push_back(half_a_message());
  std::jthread again([&](const std::stop_token& stop) {
    for (size_t i = 0; !stop.stop_requested(); i = (i + 1) % peers.size()) {
      if (!Closes(peers[i], milliseconds(1))) continue;
      ::close(peers[i]);
      peers[i] = half_a_message();
    }
  });
  auto store = StartedWorker(Config(1));
  ASSERT_TRUE(store);
  ExpectServes(*store);
  again.request_stop();
  again.join();
  for (const int fd : peers) ::close(fd);
  EXPECT_EQ(notes, 1u);
  EXPECT_GT(server_->summary().refused, 100u);
}

TEST_F(ConnectionTest, PeersWithoutTheTokenAreRefused) {
  StartServer(1);
  auto transport = MakeThriftTransport(thrift_);
  ASSERT_TRUE(transport.ok());
  SessionOptions guess = Session(Config(1), 0);
  guess.token = "guess";
  const auto store = JobSession::Join(guess, **transport, *clock_);
  EXPECT_EQ(store.status().code(), Code::kInvalid);
  EXPECT_NE(store.status().message().find("the token is not this job's"), std::string::npos);
  auto channel = (*transport)->Connect(0);
  ASSERT_TRUE(channel.ok());
  StatsReply stats;
  EXPECT_EQ((*channel)->Stats(stats).message(), "expected join first");
  // The server closes the connection after that.
  EXPECT_EQ((*channel)->Stats(stats).code(), Code::kIo);
  EXPECT_EQ(server_->summary().refused, 2u);
}

TEST_F(ConnectionTest, TlsAcceptsOnlyPeersWithACertificate) {
  const millrace::test::TemporaryFolder folder;
  const std::string make =
      "cd " + (folder / "") +
      " && exec >/dev/null 2>&1 && for n in ca other; do openssl req -x509 -newkey ec -pkeyopt "
      "ec_paramgen_curve:P-256 -nodes -keyout $n.key -out $n.pem -subj /CN=$n -days 2 || exit 1; "
      "done && for n in a b; do openssl req "
      "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $n.key -out $n.csr -subj "
      "/CN=127.0.0.1 && echo subjectAltName=IP:127.0.0.1 > $n.ext && openssl x509 -req -in $n.csr "
      "-CA ca.pem -CAkey ca.key -CAcreateserial -out $n.pem -days 2 -extfile $n.ext; done";
  if (std::system(make.c_str()) != 0) GTEST_SKIP() << "openssl cannot make certificates here";
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to peers that are gone; the programs do the same
  options_.authenticate_ms = 2000;
  options_.tls = {.cert = folder / "a.pem", .key = folder / "a.key", .ca = folder / "ca.pem"};
  StartServer(1);
  thrift_.tls = {.cert = folder / "b.pem", .key = folder / "b.key", .ca = folder / "ca.pem"};
  auto store = StartedWorker(Config(1));
  ASSERT_TRUE(store);
  ExpectServes(*store);
  const int slow = Connect();  // a handshake that never ends
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  bool cut = false;
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  for (size_t i = 0; !cut && steady_clock::now() < deadline; ++i) {
    const char byte = i < hello.size() ? hello[i] : 'x';
    cut = ::send(slow, &byte, 1, MSG_NOSIGNAL) < 0 || Closes(slow, milliseconds(50));
  }
  EXPECT_TRUE(cut);
  ::close(slow);
  // A worker that trusts another authority, and one with a certificate of another authority.
  for (const TlsFiles& wrong :
       {TlsFiles{.cert = folder / "b.pem", .key = folder / "b.key", .ca = folder / "other.pem"},
        TlsFiles{
            .cert = folder / "other.pem", .key = folder / "other.key", .ca = folder / "ca.pem"}}) {
    thrift_.tls = wrong;
    auto transport = MakeThriftTransport(thrift_);
    ASSERT_TRUE(transport.ok()) << transport.status().message();
    SessionOptions patient = Session(Config(1), 0);
    patient.wait.first_join_ns = int64_t{3600} * 1000000000;
    const auto refused = JobSession::Join(patient, **transport, *clock_);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kInvalid) << refused.status().message();
    EXPECT_NE(refused.status().message().find("certificate"), std::string::npos)
        << refused.status().message();
  }
  thrift_.tls = {};
  thrift_.call_ms = 500;
  auto plain = MakeThriftTransport(thrift_);
  SessionOptions impatient = Session(Config(1), 0);
  impatient.wait.first_join_ns = 500000000;
  const auto refused = JobSession::Join(impatient, **plain, *clock_);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("a server with TLS"), std::string::npos)
      << refused.status().message();
  ExpectServes(*store);
}

}  // namespace
}  // namespace millrace::ps
