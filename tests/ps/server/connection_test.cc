// SPDX-License-Identifier: Apache-2.0
// What peers can do to a real server over a socket.
#include "ps/server/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "io/base/random.h"
#include "ps/worker/thrift_transport.h"
#include "tests/support/flip_proxy.h"
#include "tests/support/frame.h"
#include "tests/support/server_fixture.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

class ConnectionTest : public ServerTest {};

TEST_F(ConnectionTest, HugeClaimedSizeEndsTheConnectionWithoutUsingMemory) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const long before_kb = PeakKb();
  // In an intact frame, a strict binary call to a method whose name has 1.8 GB; and a frame that
  // claims as much, or just less than a peer may send before it joins.
  const std::string call("\x80\x01\x00\x01\x6b\x49\xd2\x00joi", 11);
  for (const std::string& claim :
       {test::Framed(call), test::FrameHeader(uint64_t{1800} << 20) + call,
        test::FrameHeader(kUnauthenticatedMaxMessage) + call}) {
    std::vector<int> peers;
    for (int i = 0; i < 20; ++i) {
      peers.push_back(Connect());
      const ssize_t sent = ::send(peers.back(), claim.data(), claim.size(), MSG_NOSIGNAL);
      ASSERT_EQ(sent, static_cast<ssize_t>(claim.size()));
    }
    for (const int fd : peers) {
      EXPECT_TRUE(Closes(fd, milliseconds(5000)));
      ::close(fd);
    }
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
  const std::string frame = test::FrameHeader(kUnauthenticatedMaxMessage) + begin;
  ASSERT_EQ(::send(fd, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
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

// A synchronous job of two workers through a proxy: the bits of its model.
class FlippedBitTest : public ServerTest {
 protected:
  std::vector<std::pair<uint64_t, float>> Train(uint64_t seed, uint64_t every_bytes) {
    StartServer(2);
    const test::FlipProxy proxy(server_->port(), seed, every_bytes);
    thrift_.servers = {{.host = "127.0.0.1", .port = proxy.port()}};
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (size_t w = 0; w < 2; ++w) {
      workers.push_back(Worker(Config(2), w));
      if (!workers.back()) return {};
    }
    std::vector<std::pair<uint64_t, float>> model;
    {
      std::vector<std::jthread> threads;
      for (size_t w = 0; w < 2; ++w) {
        threads.emplace_back([&, w] { TrainOne(*workers[w], w, model); });
      }
    }
    for (const auto& worker : workers) corrupt_ += worker->wire(0).corrupt;
    EXPECT_TRUE(server_->Wait([] { return false; }).ok());
    corrupt_ += server_->summary().corrupt;
    flips_ += proxy.flips();
    return model;
  }

  // The chief reads the model at the end.
  static void TrainOne(TestWorker& worker, size_t w,
                       std::vector<std::pair<uint64_t, float>>& model) {
    Random random(w);
    const auto keys_of_batch = [&] {
      std::vector<uint64_t> keys(300);
      for (uint64_t& key : keys) key = random.Below(2000);
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      return keys;
    };
    ASSERT_TRUE(worker.Start().ok());
    for (uint64_t batch = 1; batch <= 60; ++batch) {
      const std::vector<uint64_t> keys = keys_of_batch();
      std::vector<float> weights(keys.size()), gradient(keys.size());
      Status status = worker.store.PullBatch(batch, keys, weights);
      ASSERT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < keys.size(); ++i) {
        gradient[i] = 0.1f * weights[i] + static_cast<float>(random.Uniform()) - 0.5f;
      }
      status = worker.Push(keys, gradient, {.batch = batch, .rows = 3, .weight = 3});
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ASSERT_TRUE(worker.Finish().ok());
    ASSERT_TRUE(worker.session->WaitAllFinished().ok());
    if (w == 0) {
      const Status read =
          worker.session->ReadModel([&](uint64_t key, float weight, std::span<const float>) {
            model.emplace_back(key, weight);
          });
      ASSERT_TRUE(read.ok()) << read.message();
    }
    const Status left = worker.Leave();
    EXPECT_TRUE(left.ok()) << left.message();
  }

  uint64_t flips_ = 0, corrupt_ = 0;
};

// A flipped bit costs a connection and is counted, by the worker or by the server.
TEST_F(FlippedBitTest, AJobOnANetworkThatFlipsBitsEndsWithTheSameModel) {
  const auto expected = Train(0, 0);
  ASSERT_GT(expected.size(), 1900u);
  EXPECT_EQ(corrupt_, 0u);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const auto begin = steady_clock::now();
    EXPECT_TRUE(Train(1000 * seed, 30000) == expected);
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30)) << "a worker hung";
  }
  EXPECT_GT(flips_, 20u);
  EXPECT_LE(corrupt_, flips_);
  EXPECT_GE(corrupt_, flips_ * 3 / 4) << "two bits may flip in one message";
}

// The server exits when the last worker has left: that worker cannot ask again.
TEST_F(FlippedBitTest, ACorruptedReplyToTheLastCallDoesNotFailTheWorker) {
  StartServer(1);
  test::FlipProxy proxy(server_->port(), 0, /*every_bytes=*/0);
  thrift_.servers = {{.host = "127.0.0.1", .port = proxy.port()}};
  auto worker = StartedWorker(Config(1));
  ASSERT_TRUE(worker && worker->Finish().ok());
  const std::jthread server([&] {
    EXPECT_TRUE(server_->Wait([] { return false; }).ok());
    server_.reset();
  });
  proxy.FlipNextReply();
  const Status left = worker->Leave();
  EXPECT_TRUE(left.ok()) << left.message();
  EXPECT_EQ(proxy.flips(), 1u);
  EXPECT_EQ(worker->wire(0).corrupt, 1u);
}

TEST_F(ConnectionTest, SilentPartialAndSlowMessagesEndTheConnection) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const int silent = Connect(), half = Connect(), slow = Connect();
  const std::string call = test::FrameHeader(8192) + std::string("\x80\x01\x00\x01", 4);
  ASSERT_EQ(::send(half, call.data(), 2, 0), 2);
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
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
  options_.authenticate_ms = 600000;
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
  SessionOptions patient = Session(Config(1), 0);
  patient.wait.first_join_ns = WaitOptions().first_join_ns;
  auto store = Worker(patient);
  ASSERT_TRUE(store && store->Start().ok());
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

TEST_F(ConnectionTest, TheTokenIsNotOnTheWire) {
  options_.token = "a token that is easy to find";
  StartServer(1);
  test::FlipProxy proxy(server_->port(), 0, /*every_bytes=*/0, /*record=*/true);
  thrift_.servers = {{.host = "127.0.0.1", .port = proxy.port()}};
  {
    auto worker = StartedWorker(Config(1));
    ASSERT_TRUE(worker);
    ExpectServes(*worker);
    ASSERT_TRUE(worker->Finish().ok());
    ASSERT_TRUE(worker->Leave().ok());
  }
  for (const auto& connections : {proxy.to_server(), proxy.to_worker()}) {
    ASSERT_EQ(connections.size(), 1u);
    EXPECT_GT(connections[0].size(), 500u);
    EXPECT_EQ(connections[0].find(options_.token), std::string::npos);
  }
}

// What a worker sent is sent again on other connections: whole, and its join alone after a fresh
// hello.
TEST_F(ConnectionTest, ReplayedHandshakesAreRefusedAndTheWorkerStays) {
  StartServer(1);
  test::FlipProxy proxy(server_->port(), 0, /*every_bytes=*/0, /*record=*/true);
  thrift_.servers = {{.host = "127.0.0.1", .port = proxy.port()}};
  auto worker = StartedWorker(Config(1));
  ASSERT_TRUE(worker);
  ExpectServes(*worker);
  const std::string sent = proxy.to_server().at(0);
  const size_t hello_size = 16 + io::LoadU64(sent.data());
  const size_t join_size = 16 + io::LoadU64(sent.data() + hello_size);
  const std::string join = sent.substr(hello_size, join_size);
  for (const std::string& replay : {sent, sent.substr(0, hello_size) + join, join}) {
    const int fd = Connect();
    ASSERT_EQ(::send(fd, replay.data(), replay.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(replay.size()));
    EXPECT_TRUE(Closes(fd, milliseconds(5000)));
    ::close(fd);
  }
  EXPECT_GE(server_->summary().refused, 3u) << "messages behind a refused join may count as well";
  ExpectServes(*worker);
  EXPECT_EQ(worker->wire(0).reconnects, 0u);
}

// A peer that draws nonce after nonce costs the server one.
TEST_F(ConnectionTest, ASecondHelloWithoutAJoinIsRefused) {
  StartServer(1);
  const std::string call(
      "\x80\x01\x00\x01\x00\x00\x00\x05hello\x00\x00\x00\x01\x0b\x00\x01\x00\x00\x00\x20", 24);
  const std::string hello = test::Framed(call + std::string(32, 'n') + '\0');
  const int fd = Connect();
  ASSERT_EQ(::send(fd, hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  EXPECT_FALSE(Closes(fd, milliseconds(100)));
  ASSERT_EQ(::send(fd, hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  EXPECT_TRUE(Closes(fd, milliseconds(150)));
  ::close(fd);
  EXPECT_EQ(server_->summary().refused, 1u);
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
