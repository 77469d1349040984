// Real servers, real sockets: what the wire and those on it can do to a server.
#include "ps/server/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "io/base/random.h"
#include "profiler/trace.h"
#include "ps/wire/key_codec.h"
#include "ps/worker/remote_dense_store.h"
#include "ps/worker/remote_store.h"
#include "ps/worker/thrift_transport.h"
#include "tests/test_files.h"

namespace millrace::ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

JobConfig Config(size_t workers, uint64_t num_features = 100000) {
  JobConfig config;
  config.num_workers = workers;
  config.num_features = num_features;
  config.update.rule = sparse::Rule::kSgd;
  config.update.rate = 1;
  return config;
}

class ServerTest : public testing::Test {
 protected:
  void StartServer(size_t workers) {
    options_.shard.num_workers = workers;
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
    thrift_.servers = {{.host = "127.0.0.1", .port = server_->port()}};
  }

  // A worker that has joined and started (with the others, if there are some).
  std::unique_ptr<RemoteStore> Worker(const JobConfig& config, size_t worker,
                                      RemoteOptions remote = {}) {
    remote.config = config;
    remote.client.join.worker = worker;
    remote.client.join.token = options_.token;
    remote.client.give_up_ns = 500000000;
    remote.client.first_join_ns = 5000000000;
    auto transport = MakeThriftTransport(thrift_);
    EXPECT_TRUE(transport.ok()) << transport.status().message();
    transports_.push_back(std::move(*transport));
    auto store = RemoteStore::Connect(*transports_.back(), *clock_, remote);
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (!store.ok()) return nullptr;
    return std::move(*store);
  }

  std::unique_ptr<RemoteStore> StartedWorker(const JobConfig& config) {
    auto store = Worker(config, 0);
    EXPECT_TRUE(store && store->Start().ok());
    return store;
  }

  int Connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  // Whether the peer closes the connection within that time.
  static bool Closes(int fd, milliseconds limit) {
    const auto deadline = steady_clock::now() + limit;
    char buffer[4096];
    while (steady_clock::now() < deadline) {
      pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&poll_fd, 1, 50) == 0) continue;
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

  // A step of a worker by itself, to see that the server is well.
  static void ExpectServes(RemoteStore& store) {
    const std::vector<uint64_t> keys = {1, 2, 77};
    const std::vector<float> gradient = {1, 1, 1};
    std::vector<float> before(3), after(3);
    ASSERT_TRUE(store.Pull(keys, before).ok());
    store.Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(store.Push(keys, gradient).ok());
    ASSERT_TRUE(store.Flush().ok());
    ASSERT_TRUE(store.Pull(keys, after).ok());
    EXPECT_EQ(after[0], before[0] - 1);
  }

  static long PeakKb() {
    std::ifstream file("/proc/self/status");
    for (std::string word; file >> word;) {
      long kb = 0;
      if (word == "VmHWM:" && file >> kb) return kb;
    }
    return 0;
  }

  ServerOptions options_ = {.shard = {}, .token = "secret", .stranger_ms = 300, .wait_ms = 100};
  ThriftOptions thrift_;
  std::unique_ptr<Clock> clock_ = std::make_unique<RealClock>();
  std::vector<std::unique_ptr<Transport>> transports_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, WorkersTrainTogetherAndTheServerEndsWithThem) {
  StartServer(3);
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 3; ++w) {
    auto store = Worker(Config(3), w);
    ASSERT_TRUE(store);
    workers.emplace_back([w, store = std::move(store)] {
      ASSERT_TRUE(store->Start().ok());
      const std::vector<uint64_t> even = {w, 10}, odd = even;
      for (int step = 0; step < 50; ++step) {
        const std::vector<uint64_t>& keys = step % 2 == 0 ? even : odd;
        std::vector<float> weights(2);
        if (step < 49) store->Announce(step % 2 == 0 ? odd : even);
        ASSERT_TRUE(store->Pull(keys, weights).ok());
        EXPECT_EQ(weights[1], static_cast<float>(-step));
        store->Describe({.rows = 1, .weight = 1});
        ASSERT_TRUE(store->Push(keys, std::vector<float>{3, 1}).ok());
      }
      ASSERT_TRUE(store->Finish().ok());
      ASSERT_TRUE(store->WaitDrained().ok());
      std::vector<float> weights(2);
      ASSERT_TRUE(store->Pull(even, weights).ok());
      EXPECT_EQ(weights[0], -50);
      ASSERT_TRUE(store->Leave().ok());
    });
  }
  EXPECT_TRUE(server_->Wait([] { return false; }).ok());
  EXPECT_EQ(server_->summary().steps, 50u);
}

// Apache Thrift 0.17 adds up all input of a connection against one message's limit of 100 MB.
TEST_F(ServerTest, AConnectionLivesBeyondAHundredMegabytes) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::vector<uint64_t> keys(100000);
  std::iota(keys.begin(), keys.end(), 0);
  std::vector<float> weights(keys.size()), gradient(keys.size(), 1.0f);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(store->Pull(keys, weights).ok());
    store->Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(store->Push(keys, gradient).ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_GT(server_->summary().bytes_in, 105u << 20);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

// And its framed transport refuses more than 16 MB at once. Not a test of speed: a sanitizer on a
// busy machine may take long.
TEST_F(ServerTest, MessagesMayBeLargerThanSixteenMegabytes) {
  StartServer(1);
  thrift_.call_ms = 60000;
  const JobConfig config = Config(1, 5000000);
  auto store = StartedWorker(config);
  std::vector<uint64_t> keys(5000000);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> gradient(keys.size(), 1.0f);
  store->Describe({.rows = 1, .weight = 1});
  ASSERT_TRUE(store->Push(keys, gradient).ok());
  ASSERT_TRUE(store->Flush().ok());
  std::vector<float> weights(keys.size());
  ASSERT_TRUE(store->Pull(keys, weights).ok());
  EXPECT_EQ(weights.back(), -1);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, AHugeClaimCostsTheSenderItsConnectionAndNoMemory) {
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
  // One claim taken at its word would be 1.8 GB; 20 threads cost a sanitizer up to 70 MB.
  EXPECT_LT(PeakKb() - before_kb, 256 << 10);
  ExpectServes(*store);
}

TEST_F(ServerTest, RandomBytesCostTheSenderItsConnection) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  io::Random random(1);
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

TEST_F(ServerTest, HalfSentAndSlowlyDrippingMessagesAreCutOff) {
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

// Strangers may stay for longer than the worker tries to join, and come again when they are closed.
TEST_F(ServerTest, AWorkerJoinsAServerThatStrangersFill) {
  options_.stranger_ms = 60000;
  std::atomic<size_t> notes = 0;
  options_.shard.on_note = [&](const std::string&) { ++notes; };
  StartServer(1);
  const auto half_a_message = [&] {
    const int fd = Connect();
    EXPECT_EQ(::send(fd, "\x80", 1, MSG_NOSIGNAL), 1);
    return fd;
  };
  std::vector<int> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(half_a_message());
  std::jthread again([&](const std::stop_token& stop) {
    for (size_t i = 0; !stop.stop_requested(); i = (i + 1) % strangers.size()) {
      if (!Closes(strangers[i], milliseconds(1))) continue;
      ::close(strangers[i]);
      strangers[i] = half_a_message();
    }
  });
  auto store = StartedWorker(Config(1));
  ASSERT_TRUE(store);
  ExpectServes(*store);
  again.request_stop();
  again.join();
  for (const int fd : strangers) ::close(fd);
  EXPECT_EQ(notes, 1u);
  EXPECT_GT(server_->summary().refused, 100u);
}

TEST_F(ServerTest, AnIdleWorkerIsNotCutOff) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  std::this_thread::sleep_for(milliseconds(2 * options_.stranger_ms));
  ExpectServes(*store);
  EXPECT_EQ(store->wire(0).reconnects, 0u);
}

TEST_F(ServerTest, StrangersAreRefused) {
  StartServer(1);
  auto transport = MakeThriftTransport(thrift_);
  ASSERT_TRUE(transport.ok());
  RemoteOptions remote;
  remote.config = Config(1);
  remote.client.join.token = "guess";
  const auto store = RemoteStore::Connect(**transport, *clock_, remote);
  EXPECT_EQ(store.status().code(), io::Code::kInvalid);
  EXPECT_NE(store.status().message().find("the token is not this job's"), std::string::npos);
  auto channel = (*transport)->Connect(0);
  ASSERT_TRUE(channel.ok());
  StatsReply stats;
  EXPECT_EQ((*channel)->Stats(stats).message(), "expected join first");
  // And the connection is closed behind it.
  EXPECT_EQ((*channel)->Stats(stats).code(), io::Code::kIo);
  EXPECT_EQ(server_->summary().refused, 2u);
}

TEST_F(ServerTest, KeysOutsideTheShardAreRefusedAndChangeNothing) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  JobConfig wider = Config(1);
  auto transport = MakeThriftTransport(thrift_);
  auto channel = (*transport)->Connect(0);
  ASSERT_TRUE(channel.ok());
  JoinReply joined;
  const JoinRequest join = {.token = options_.token,
                            .worker = 0,
                            .name = "twin",
                            .config = wider.Fields().Encode(),
                            .rejoin = true};
  ASSERT_TRUE((*channel)->Join(join, joined).ok());
  std::string keys;
  EncodeKeys(std::vector<uint64_t>{5, 100000}, keys);
  ExchangeRequest request;
  request.sequence = 1;
  request.pulls = true;
  request.pull_list = ListSignature(keys);
  request.pull_keys = keys;
  ExchangeReply reply;
  ASSERT_TRUE((*channel)->SendExchange(request).ok());
  const io::Status status = (*channel)->ReceiveExchange(reply);
  EXPECT_EQ(status.message(), "key list: expected keys below 100000, found 100000");
}

// Three workers, two servers, parameters of several blocks and of a few numbers.
TEST_F(ServerTest, DenseParametersAreTrainedTogetherAndEqualTheMeanBitForBit) {
  JobConfig config = Config(3, 0);
  config.num_shards = 2;
  config.dense.emplace();
  config.dense->rule = sparse::DenseRule::kMomentum;
  config.dense->rate = 0.25;
  options_.shard.num_shards = 2;
  options_.shard.shard = 1;
  StartServer(3);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  StartServer(3);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  const size_t big = RemoteDenseStore::kBlockFloats * 2 + 5;
  std::vector<std::vector<float>> finals(3);
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 3; ++w) {
    workers.emplace_back([&, w, job = Worker(config, w)] {
      std::vector<float> a(big, w == 0 ? 1.0f : 99.0f), b(7, 2), ga(big), gb(7, 0.5f);
      RemoteDenseStore store(*job, config, w == 0);
      const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = a},
                                                      {.name = "b", .weights = b}};
      ASSERT_TRUE(store.Init(params).ok());
      EXPECT_EQ(a[5], 1);
      for (int step = 0; step < 5; ++step) {
        for (size_t i = 0; i < big; ++i) ga[i] = a[i] * 0.5f + static_cast<float>(w);
        store.Describe({.rows = 10, .weight = 10}, std::to_string(step + 1));
        ASSERT_TRUE(store.Push(1, gb).ok());
        ASSERT_TRUE(store.Push(0, ga).ok());
        ASSERT_TRUE(store.Pull(0).ok());
        ASSERT_TRUE(store.Pull(1).ok());
      }
      finals[w] = a;
      EXPECT_EQ(job->progress().step, 5u);
      EXPECT_EQ(job->progress().examples, 5u * 30);
      ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
    });
  }
  workers.clear();
  EXPECT_EQ(finals[0], finals[1]);
  EXPECT_EQ(finals[0], finals[2]);
  // The same in plain arithmetic, for one number.
  float x = 1, m = 0;
  for (int step = 0; step < 5; ++step) {
    float mean = 0;
    for (int w = 0; w < 3; ++w) {
      mean += static_cast<float>(10.0 / 30) * (x * 0.5f + static_cast<float>(w));
    }
    m = 0.9f * m + mean;
    x -= 0.25f * m;
  }
  EXPECT_EQ(finals[0].front(), x);
  EXPECT_EQ(finals[0].back(), x);
}

// The bytes that the trace so far gives to spans of that name.
uint64_t TracedBytes(const std::string& trace, const std::string& name) {
  uint64_t sum = 0;
  for (size_t at = 0; (at = trace.find("\"" + name + "\"", at)) != std::string::npos; ++at) {
    const size_t bytes = trace.find("\"bytes\":", at);
    if (bytes < trace.find('\n', at)) sum += std::stoull(trace.substr(bytes + 8));
  }
  return sum;
}

TEST_F(ServerTest, DenseSpansTellTheBytesThatWereSent) {
  constexpr size_t kNumbers = 30000;
  for (const bool bf16 : {false, true}) {
    JobConfig config = Config(1, 0);
    config.dense.emplace();
    config.bf16 = bf16;
    StartServer(1);
    const auto job = Worker(config, 0);
    std::vector<float> weights(kNumbers, 1), gradient(kNumbers, 0.5f);
    RemoteDenseStore store(*job, config, true);
    const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
    ASSERT_TRUE(store.Init(params).ok());
    const WireStats before = store.wire(0);
    profiler::StartTracing();
    store.Describe({.rows = 1, .weight = 1}, "");
    ASSERT_TRUE(store.Push(0, gradient).ok() && store.Pull(0).ok());
    profiler::StopTracing();
    const std::string trace = profiler::RecentTrace(1000);
    EXPECT_EQ(TracedBytes(trace, "push_dense"), 1 + (bf16 ? 2 : 4) * kNumbers);
    EXPECT_EQ(TracedBytes(trace, "pull_dense"), 1 + 4 * kNumbers);
    const WireStats after = store.wire(0);
    EXPECT_NEAR(static_cast<double>(after.sent - before.sent), (bf16 ? 2 : 4) * kNumbers, 600);
    ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
  }
}

TEST_F(ServerTest, PackedDenseBlocksAreSmallerBothWaysAndTrainTheSame) {
  constexpr size_t kNumbers = 30000;
  std::vector<std::vector<float>> finals;
  for (const bool zstd : {false, true}) {
    JobConfig config = Config(1, 0);
    config.dense.emplace();
    config.zstd = zstd;
    StartServer(1);
    const auto job = Worker(config, 0);
    std::vector<float> weights(kNumbers), gradient(kNumbers);
    for (size_t i = 0; i < kNumbers; ++i) gradient[i] = static_cast<float>(i % 7);
    RemoteDenseStore store(*job, config, true);
    const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
    ASSERT_TRUE(store.Init(params).ok());
    const WireStats before = store.wire(0);
    for (int step = 0; step < 3; ++step) {
      store.Describe({.rows = 1, .weight = 1}, "");
      ASSERT_TRUE(store.Push(0, gradient).ok() && store.Pull(0).ok());
    }
    const WireStats after = store.wire(0);
    EXPECT_EQ(after.sent - before.sent < 3 * kNumbers, zstd);
    EXPECT_EQ(after.received - before.received < 3 * kNumbers, zstd);
    finals.push_back(weights);
    ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
  }
  EXPECT_NE(finals[0][1], 0);
  EXPECT_EQ(finals[0], finals[1]);
}

TEST_F(ServerTest, PackedDenseBlockOfAnotherSizeIsRefused) {
  JobConfig config = Config(1, 0);
  config.dense.emplace();
  StartServer(1);
  const std::vector<float> weights(10), many(10 << 20);
  FloatCodec codec;
  std::string values, packed;
  ASSERT_TRUE(codec.Encode(weights, {}, values).ok());
  ASSERT_TRUE(codec.Encode(many, {.zstd = true}, packed).ok());
  const auto store = Worker(config, 0);
  const auto init = [&](uint32_t block, const std::string& numbers) {
    return store->CallShard(0, [&](Channel& channel) {
      return channel.InitDense({.block = block, .values = numbers});
    });
  };
  ASSERT_TRUE(init(0, values).ok());
  const io::Status unknown = init(1, packed);
  EXPECT_NE(unknown.message().find("dense block 1 is packed, and not known"), std::string::npos)
      << unknown.message();
  const io::Status large = init(0, packed);
  EXPECT_NE(large.message().find("zstd: "), std::string::npos) << large.message();
}

TEST_F(ServerTest, WaitingForTwoServersAtOnceIsCountedOnce) {
  JobConfig config = Config(2);
  config.num_shards = 2;
  options_.shard.num_shards = 2;
  options_.shard.shard = 1;
  StartServer(2);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  StartServer(2);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  std::vector<std::jthread> workers;
  for (size_t w = 0; w < 2; ++w) {
    workers.emplace_back([w, job = Worker(config, w)] {
      ASSERT_TRUE(job->Start().ok());
      const std::vector<uint64_t> keys = {1, 2, 99999};
      std::vector<float> weights(3);
      ASSERT_TRUE(job->Pull(keys, weights).ok());
      if (w == 1) std::this_thread::sleep_for(milliseconds(250));
      job->Describe({.rows = 1, .weight = 1});
      ASSERT_TRUE(job->Push(keys, weights).ok() && job->Flush().ok());
      WireStats sum = job->wire(0);
      sum.Add(job->wire(1));
      EXPECT_LE(sum.barrier_ns + sum.server_ns, sum.wait_ns);
      EXPECT_TRUE(w == 1 || sum.barrier_ns > 0);
      ASSERT_TRUE(job->Finish().ok() && job->Leave().ok());
    });
  }
}

TEST_F(ServerTest, AServerThatIsGoneIsNamedInTime) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  server_.reset();
  const auto begin = steady_clock::now();
  const std::vector<uint64_t> keys = {1};
  std::vector<float> weights(1);
  const io::Status status = store->Pull(keys, weights);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(status.code(), io::Code::kIo);
  EXPECT_NE(status.message().find("server 0 at 127.0.0.1:"), std::string::npos);
  EXPECT_NE(status.message().find("is gone"), std::string::npos) << status.message();
}

TEST_F(ServerTest, AServerThatWasStartedAgainHasLostTheJob) {
  StartServer(1);
  auto store = StartedWorker(Config(1));
  ExpectServes(*store);
  const int port = server_->port();
  server_.reset();
  options_.port = port;
  StartServer(1);
  const std::vector<uint64_t> keys = {1};
  std::vector<float> weights(1);
  const io::Status status = store->Pull(keys, weights);
  EXPECT_NE(status.message().find("--resume"), std::string::npos) << status.message();
}

TEST_F(ServerTest, AWorkerThatIsGoneEndsTheOthersWithItsName) {
  options_.shard.rejoin_ns = 300000000;
  StartServer(2);
  auto first = Worker(Config(2), 0);
  auto second = Worker(Config(2), 1);
  ASSERT_TRUE(first && second);
  std::jthread waiting([&] { ASSERT_TRUE(second->Start().ok()); });
  ASSERT_TRUE(first->Start().ok());
  waiting.join();
  const std::jthread tick([&] { EXPECT_FALSE(server_->Wait([] { return false; }).ok()); });
  second.reset();
  transports_.pop_back();
  const std::vector<uint64_t> keys = {1};
  first->Describe({.rows = 1, .weight = 1});
  io::Status status = first->Push(keys, std::vector<float>{1});
  if (status.ok()) status = first->Flush();
  EXPECT_EQ(status.code(), io::Code::kFailed);
  EXPECT_NE(status.message().find("worker 1"), std::string::npos) << status.message();
}

// Twenty seconds pass in one.
class FastClock final : public Clock {
 public:
  int64_t NowNs() override { return 20 * real_.NowNs(); }
  void Pause(int64_t ns) override { real_.Pause(ns / 20); }

 private:
  RealClock real_;
};

TEST_F(ServerTest, AStepThatWaitsForAWorkerIsDroppedWhenTheChiefIsAskedToStop) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  clock_ = std::make_unique<FastClock>();
  StartServer(2);
  std::atomic<bool> asked = false;
  RemoteOptions interrupted;
  interrupted.client.should_stop = [&] { return asked.load(); };
  auto chief = Worker(Config(2), 0, interrupted);
  auto other = Worker(Config(2), 1);
  ASSERT_TRUE(chief && other);
  std::jthread waiting([&] { ASSERT_TRUE(other->Start().ok()); });
  ASSERT_TRUE(chief->Start().ok());
  waiting.join();
  const std::vector<uint64_t> keys = {1};
  const std::vector<float> gradient = {1};
  std::vector<float> weights(1);
  for (RemoteStore* store : {other.get(), chief.get()}) {
    ASSERT_TRUE(store->Pull(keys, weights).ok());
    store->Describe({.rows = 1, .weight = 1});
    ASSERT_TRUE(store->Push(keys, gradient).ok());
  }
  ASSERT_TRUE(chief->Flush().ok());
  ASSERT_TRUE(chief->Pull(keys, weights).ok());
  chief->Describe({.rows = 1, .weight = 1});
  ASSERT_TRUE(chief->Push(keys, gradient).ok());  // the other one stands still
  asked = true;
  EXPECT_EQ(chief->Flush().code(), io::Code::kCancelled);
  ASSERT_TRUE(chief->Stop().ok());
  const io::Status saved = chief->Checkpoint(1, "state");
  EXPECT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(chief->progress().step, 1u);
  ASSERT_TRUE(chief->Pull(keys, weights).ok());
  EXPECT_EQ(weights[0], -1);
}

TEST_F(ServerTest, ShardsOfDifferentStepsAreNotSaved) {
  const test::TemporaryFolder folder;
  JobConfig config = Config(2);
  config.num_shards = options_.shard.num_shards = 2;
  clock_ = std::make_unique<FastClock>();
  options_.shard.shard = 1;
  options_.shard.checkpoints = folder / "shard-1";
  StartServer(2);
  const std::unique_ptr<Server> second = std::move(server_);
  options_.shard.shard = 0;
  options_.shard.checkpoints = folder / "shard-0";
  StartServer(2);
  thrift_.servers.push_back({.host = "127.0.0.1", .port = second->port()});
  RemoteOptions interrupted;
  std::atomic<bool> asked = false;
  interrupted.client.should_stop = [&] { return asked.load(); };
  auto chief = Worker(config, 0, interrupted);
  ASSERT_TRUE(chief);
  // The other worker reaches only the first server.
  auto transport = MakeThriftTransport(thrift_);
  ASSERT_TRUE(transport.ok());
  std::unique_ptr<Channel> channels[2];
  for (size_t shard = 0; shard < 2; ++shard) {
    auto channel = (*transport)->Connect(shard);
    ASSERT_TRUE(channel.ok());
    channels[shard] = std::move(*channel);
    JoinReply joined;
    ASSERT_TRUE(channels[shard]
                    ->Join({.token = options_.token,
                            .worker = 1,
                            .name = {},
                            .config = config.Fields().Encode()},
                           joined)
                    .ok());
  }
  ASSERT_TRUE(chief->Start().ok());
  ExchangeRequest push;
  push.sequence = push.rows = 1;
  push.pushes = true;
  std::string no_keys;
  EncodeKeys({}, no_keys);
  push.push_keys = no_keys;
  push.push_list = ListSignature(no_keys);
  FloatCodec floats;
  std::string no_numbers;
  ASSERT_TRUE(floats.Encode({}, {}, no_numbers).ok());
  push.gradient = no_numbers;
  ASSERT_TRUE(channels[0]->SendExchange(push).ok());
  chief->Describe({.rows = 1, .weight = 1});
  ASSERT_TRUE(chief->Push({}, {}).ok());
  asked = true;
  EXPECT_EQ(chief->Flush().code(), io::Code::kCancelled);
  ASSERT_TRUE(chief->Stop().ok());
  const io::Status saved = chief->Checkpoint(1, "state");
  EXPECT_EQ(saved.code(), io::Code::kFailed);
  EXPECT_NE(saved.message().find("is at step 1 and server 1"), std::string::npos)
      << saved.message();
  EXPECT_NE(saved.message().find("half made"), std::string::npos) << saved.message();
}

TEST_F(ServerTest, ACheckpointThatCannotBeWrittenIsNoFaultOfTheCaller) {
  const test::TemporaryFolder folder;
  test::WriteFile(folder / "file", "");
  options_.shard.checkpoints = folder / "file/shard-0";
  StartServer(1);
  auto store = StartedWorker(Config(1));
  const io::Status saved = store->Checkpoint(1, "state");
  EXPECT_EQ(saved.code(), io::Code::kFailed);
  EXPECT_NE(saved.message().find(options_.shard.checkpoints), std::string::npos) << saved.message();
  ExpectServes(*store);
}

// Checkpoints here take much longer than a call may wait.
TEST_F(ServerTest, CheckpointsHoldOthersUpAndEndNobody) {
  const test::TemporaryFolder folder;
  options_.shard.checkpoints = folder / "shard-0";
  options_.wait_ms = 1;
  JobConfig config = Config(3, 0);
  config.mode = Mode::kAsync;
  config.dense.emplace();
  StartServer(3);
  std::unique_ptr<RemoteStore> jobs[3];
  for (size_t w = 0; w < 3; ++w) jobs[w] = Worker(config, w);
  std::vector<std::jthread> workers;
  std::atomic<bool> done = false;
  for (size_t w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      std::vector<float> weights(1 << 20), gradient(1 << 20, 1.0f);
      RemoteDenseStore store(*jobs[w], config, w == 0);
      const std::vector<sparse::DenseParam> params = {{.name = "a", .weights = weights}};
      ASSERT_TRUE(store.Init(params).ok());
      for (uint64_t id = 1; w == 0 && id <= 10; ++id) {
        const io::Status saved = jobs[w]->Checkpoint(id, "state");
        EXPECT_TRUE(saved.ok()) << saved.message();
      }
      while (w == 1 && !done) {
        store.Describe({.rows = 1, .weight = 1}, "");
        ASSERT_TRUE(store.Push(0, gradient).ok());
        const io::Status pulled = store.Pull(0);
        ASSERT_TRUE(pulled.ok()) << pulled.message();
      }
      done = true;
    });
  }
  ASSERT_TRUE(jobs[2]->Start().ok());
  RemoteOptions again;
  again.client.join.rejoin = true;
  while (!done) {
    ASSERT_TRUE(Worker(config, 2, again));
  }
}

TEST_F(ServerTest, APortInUseIsAClearError) {
  StartServer(1);
  ServerOptions twin = options_;
  twin.port = server_->port();
  const auto server = Server::Start(twin);
  EXPECT_NE(server.status().message().find("cannot listen on 127.0.0.1:"), std::string::npos);
}

TEST_F(ServerTest, PredictedBytesAreTheMeasuredOnes) {
  for (const bool packed : {false, true}) {
    StartServer(1);
    JobConfig config = Config(1);
    config.zstd = config.bf16 = packed;
    auto store = StartedWorker(config);
    io::Random random(1);
    std::vector<uint64_t> keys(500), next(500);
    std::vector<float> weights(500), gradient(500, 0.5f);
    for (int step = 0; step < 100; ++step) {
      keys.swap(next);
      uint64_t key = 0;
      for (uint64_t& k : next) k = key += 1 + random.Below(180);
      store->Announce(next);
      if (step == 0) continue;
      ASSERT_TRUE(store->Pull(keys, weights).ok());
      store->Describe({.rows = 100, .weight = 100});
      ASSERT_TRUE(store->Push(keys, gradient).ok());
    }
    ASSERT_TRUE(store->Flush().ok());
    const WireStats& wire = store->wire(0);
    EXPECT_NEAR(static_cast<double>(wire.sent), static_cast<double>(wire.predicted_sent),
                0.02 * static_cast<double>(wire.sent));
    EXPECT_NEAR(static_cast<double>(wire.received), static_cast<double>(wire.predicted_received),
                0.02 * static_cast<double>(wire.received));
  }
}

TEST_F(ServerTest, TlsLetsInWhoHasACertificateAndNobodyElse) {
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
  options_.stranger_ms = 2000;
  options_.tls = {.cert = folder / "a.pem", .key = folder / "a.key", .ca = folder / "ca.pem"};
  StartServer(1);
  thrift_.tls = {.cert = folder / "b.pem", .key = folder / "b.key", .ca = folder / "ca.pem"};
  auto store = StartedWorker(Config(1));
  ASSERT_TRUE(store);
  ExpectServes(*store);
  const int slow = Connect();  // a handshake that goes on and never ends
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  bool cut = false;
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  for (size_t i = 0; !cut && steady_clock::now() < deadline; ++i) {
    const char byte = i < hello.size() ? hello[i] : 'x';
    cut = ::send(slow, &byte, 1, MSG_NOSIGNAL) < 0 || Closes(slow, milliseconds(50));
  }
  EXPECT_TRUE(cut);
  ::close(slow);
  // A worker that knows another authority, and one whose certificate is of another.
  for (const TlsFiles& wrong :
       {TlsFiles{.cert = folder / "b.pem", .key = folder / "b.key", .ca = folder / "other.pem"},
        TlsFiles{
            .cert = folder / "other.pem", .key = folder / "other.key", .ca = folder / "ca.pem"}}) {
    thrift_.tls = wrong;
    auto transport = MakeThriftTransport(thrift_);
    ASSERT_TRUE(transport.ok()) << transport.status().message();
    RemoteOptions remote;
    remote.config = Config(1);
    remote.client.join.token = options_.token;
    remote.client.first_join_ns = int64_t{3600} * 1000000000;
    const auto refused = RemoteStore::Connect(**transport, *clock_, remote);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), io::Code::kInvalid) << refused.status().message();
    EXPECT_NE(refused.status().message().find("certificate"), std::string::npos)
        << refused.status().message();
  }
  thrift_.tls = {};
  thrift_.call_ms = 500;
  auto plain = MakeThriftTransport(thrift_);
  RemoteOptions remote;
  remote.config = Config(1);
  remote.client.first_join_ns = 500000000;
  EXPECT_FALSE(RemoteStore::Connect(**plain, *clock_, remote).ok());
  ExpectServes(*store);
}

}  // namespace
}  // namespace millrace::ps
