// SPDX-License-Identifier: Apache-2.0
// The wire: an exchange next to a plain TCP ping-pong of the same size, and its parts.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "io/base/random.h"
#include "ps/server/gradient_sum.h"
#include "ps/server/server.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/key_codec.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "sparse/local_store.h"

namespace millrace::ps {
namespace {

constexpr uint64_t kFeatures = 33762578;

// Keys spread evenly over all features, each on a page of its own: the worst case.
std::vector<uint64_t> Keys(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> keys(count);
  uint64_t key = 0;
  for (uint64_t& k : keys) k = key += 1 + random.Below(2 * 33000000 / count - 1);
  return keys;
}

// Keys of rows of 39 fields in which a few values make most of the rows, as in logs of clicks.
std::vector<uint64_t> SkewedKeys(size_t count, uint64_t seed) {
  constexpr uint64_t kFields = 39;
  constexpr uint64_t kValues = kFeatures / kFields;
  Random random(seed);
  std::set<uint64_t> keys;
  for (uint64_t field = 0; keys.size() < count; field = (field + 1) % kFields) {
    const double rank = std::pow(random.Uniform(), 8);
    keys.insert(field * kValues + static_cast<uint64_t>(rank * static_cast<double>(kValues)));
  }
  return {keys.begin(), keys.end()};
}

void BM_EncodeKeys(benchmark::State& state) {
  const std::vector<uint64_t> keys = Keys(static_cast<size_t>(state.range(0)), 1);
  std::string bytes;
  for (auto _ : state) EncodeKeys(keys, bytes);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_EncodeKeys)->Arg(2000)->Arg(20000);

void BM_DecodeKeys(benchmark::State& state) {
  const std::vector<uint64_t> keys = Keys(static_cast<size_t>(state.range(0)), 1);
  std::string bytes;
  EncodeKeys(keys, bytes);
  KeyDecoder decoder;
  PodVector<uint64_t> decoded;
  for (auto _ : state) {
    if (!decoder.Decode(bytes, {}, decoded).ok()) state.SkipWithError("decode");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_DecodeKeys)->Arg(2000)->Arg(20000);

void BM_EncodeGradient(benchmark::State& state) {
  Random random(1);
  std::vector<float> numbers(2000);
  for (float& x : numbers) x = static_cast<float>(random.Uniform() - 0.5);
  FloatCodec codec;
  std::string bytes;
  const FloatFormat format = {.bf16 = state.range(0) != 0, .zstd = state.range(1) != 0};
  for (auto _ : state) {
    if (!codec.Encode(numbers, format, bytes).ok()) state.SkipWithError("encode");
  }
  state.counters["bytes"] = static_cast<double>(bytes.size());
}
BENCHMARK(BM_EncodeGradient)->ArgNames({"bf16", "zstd"})->ArgsProduct({{0, 1}, {0, 1}});

void BM_SumOfThreeWorkers(benchmark::State& state) {
  std::vector<std::vector<uint64_t>> keys;
  for (uint64_t w = 0; w < 3; ++w) keys.push_back(Keys(static_cast<size_t>(state.range(0)), w));
  const std::vector<float> gradient(keys[0].size(), 1.0f);
  GradientSum sum;
  for (auto _ : state) {
    sum.Clear();
    for (const auto& list : keys) sum.Add(list, gradient);
  }
  state.SetItemsProcessed(state.iterations() * 3 * state.range(0));
}
BENCHMARK(BM_SumOfThreeWorkers)->Arg(2000)->Arg(20000);

constexpr size_t kPayload = 48 << 10;  // of which half goes each way

// Keeps this thread, and those that it starts from now on, on one core until the end of the scope.
class OnCore {
 public:
  explicit OnCore(int core) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    Go(core);
  }
  ~OnCore() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

  void Go(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    ::sched_setaffinity(0, sizeof set, &set);
  }

 private:
  cpu_set_t before_;
};

// False at the end of the connection. With polling, the thread does not sleep.
bool Transfer(int fd, char* buffer, size_t size, bool send, bool polls) {
  for (size_t done = 0; done < size;) {
    const ssize_t some = send ? ::send(fd, buffer + done, size - done, MSG_NOSIGNAL)
                              : ::recv(fd, buffer + done, size - done, polls ? MSG_DONTWAIT : 0);
    if (some < 0 && errno == EAGAIN && polls) {
      ::sched_yield();
      continue;
    }
    if (some <= 0) return false;
    done += static_cast<size_t>(some);
  }
  return true;
}

// 24 KB in each direction over a plain socket; both ends on one core, or one core each.
void BM_TcpPingPong48K(benchmark::State& state) {
  OnCore other_end(static_cast<int>(state.range(0)) - 1);
  const bool polls = state.range(1) != 0;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    state.SkipWithError("no port");
    return;
  }
  const int one = 1;
  std::jthread echo([&] {
    const int fd = ::accept(listener, nullptr, nullptr);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    std::vector<char> buffer(kPayload / 2);
    while (Transfer(fd, buffer.data(), buffer.size(), false, polls)) {
      Transfer(fd, buffer.data(), buffer.size(), true, polls);
    }
    ::close(fd);
  });
  other_end.Go(0);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::vector<char> buffer(kPayload / 2);
  for (auto _ : state) {
    Transfer(fd, buffer.data(), buffer.size(), true, polls);
    Transfer(fd, buffer.data(), buffer.size(), false, polls);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kPayload));
  ::close(fd);
  ::close(listener);
}
BENCHMARK(BM_TcpPingPong48K)
    ->ArgNames({"cores", "polls"})
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->UseRealTime();

// Lists in turn whose exchange is about the same: keys and gradient there, weights back.
constexpr size_t kLists = 8;
std::vector<std::vector<uint64_t>> ExchangeLists(bool skewed) {
  const size_t count = kPayload / (4 + 4 + 2);  // a gradient, a weight and a key's difference
  std::vector<std::vector<uint64_t>> lists;
  for (size_t i = 0; i < kLists; ++i)
    lists.push_back(skewed ? SkewedKeys(count, i) : Keys(count, i));
  return lists;
}

// What the model itself takes of an exchange: the update with one list, the weights of the other.
void BM_UpdateAndGather48K(benchmark::State& state) {
  const sparse::ModelShape shape = {.num_features = kFeatures};
  auto store = sparse::LocalStore::Create(shape, {.rule = sparse::Rule::kSgd});
  const auto lists = ExchangeLists(state.range(0) != 0);
  std::vector<float> weights(lists[0].size()), gradient(lists[0].size(), 0.001f);
  size_t turn = 0;
  for (auto _ : state) {
    const bool well = (*store)->Push(lists[turn % kLists], gradient, {}).ok() &&
                      (*store)->Pull(lists[(turn + 1) % kLists], weights).ok();
    if (!well) state.SkipWithError("update");
    ++turn;
  }
}
BENCHMARK(BM_UpdateAndGather48K)->ArgName("skewed")->Arg(0)->Arg(1)->UseRealTime();

void BM_Exchange48K(benchmark::State& state) {
  OnCore other_end(static_cast<int>(state.range(1)) - 1);
  ServerOptions options;
  auto server = Server::Start(options);
  other_end.Go(0);
  SessionOptions session_options;
  session_options.thrift.servers = {{.host = "127.0.0.1", .port = (*server)->port()}};
  session_options.config.num_features = kFeatures;
  session_options.config.update.rule = sparse::Rule::kSgd;
  auto session = JobSession::Join(session_options);
  if (!session.ok() || !(*session)->Start().ok()) {
    state.SkipWithError("no server");
    return;
  }
  RemoteStore store(**session);
  const auto lists = ExchangeLists(state.range(0) != 0);
  std::vector<float> weights(lists[0].size()), gradient(lists[0].size(), 0.001f);
  const auto list = [&](size_t step) { return std::span<const uint64_t>(lists[step % kLists]); };
  uint64_t batch = 1;
  for (auto _ : state) {  // what a training step does
    store.Prefetch(batch + 1, list(batch + 1));
    const bool well =
        store.PullBatch(batch, list(batch), weights).ok() &&
        store.Push(list(batch), gradient, {.batch = batch, .rows = 100, .weight = 100}).ok();
    if (!well) state.SkipWithError("exchange");
    ++batch;
  }
  if (!store.Flush().ok()) state.SkipWithError("exchange");
  const WireStats& wire = store.wire(0);
  state.counters["bytes"] = static_cast<double>(wire.sent + wire.received) /
                            static_cast<double>(std::max<uint64_t>(wire.exchanges, 1));
  state.counters["server_us"] = 1e-3 * static_cast<double>(wire.server_ns) /
                                static_cast<double>(std::max<uint64_t>(wire.exchanges, 1));
  state.SetBytesProcessed(static_cast<int64_t>(wire.sent + wire.received));
}
BENCHMARK(BM_Exchange48K)
    ->ArgNames({"skewed", "cores"})
    ->ArgsProduct({{0, 1}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace millrace::ps
