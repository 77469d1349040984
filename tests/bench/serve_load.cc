// SPDX-License-Identifier: Apache-2.0
// Thrift calls to a running millrace-serve, pipelined:
//
//   serve_load PORT CALL CONNECTIONS DEPTH SECONDS
//
// CALL: keys (a row of 39 keys), fields (a row of the 39 named fields f0 to f38), or batch (100
// rows of 39 keys). Each connection, a thread, has DEPTH calls under way. Prints calls and rows per
// second and percentiles of the time of a call.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gen-cpp/Score.h"
#include "io/base/random.h"

namespace millrace {
namespace {

using apache::thrift::protocol::TBinaryProtocol;
using apache::thrift::transport::TFramedTransport;
using apache::thrift::transport::TMemoryBuffer;
using Clock = std::chrono::steady_clock;

constexpr size_t kFields = 39;
constexpr size_t kCalls = 1024;  // different ones
constexpr size_t kBatch = 100;

serve::rpc::Keys RandomKeys(Random& random) {
  serve::rpc::Keys keys;
  for (size_t i = 0; i < kFields; ++i) {
    keys.keys.push_back(static_cast<int64_t>(random.Below(1 << 22)));
  }
  return keys;
}

// One call as it is sent.
std::string Frame(const std::string& call, Random& random) {
  const auto buffer = std::make_shared<TMemoryBuffer>();
  serve::rpc::ScoreClient client(
      std::make_shared<TBinaryProtocol>(std::make_shared<TFramedTransport>(buffer)));
  if (call == "fields") {
    serve::rpc::Row row;
    for (size_t i = 0; i < kFields; ++i) {
      row.texts["f" + std::to_string(i)] = "v" + std::to_string(random.Below(100000));
    }
    client.send_score_rows({row}, serve::rpc::Output::PROBABILITY);
  } else {
    std::vector<serve::rpc::Keys> rows(call == "batch" ? kBatch : 1);
    for (serve::rpc::Keys& row : rows) row = RandomKeys(random);
    client.send_score_keys(rows, serve::rpc::Output::PROBABILITY);
  }
  return buffer->getBufferAsString();
}

void Check(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

struct Load {
  int port;
  std::string call;
  size_t depth;
  double seconds;
};

// Returns the time of each call in seconds.
std::vector<float> Run(const Load& load, uint64_t seed) {
  Random random(seed);
  std::vector<std::string> bursts;  // of `depth` calls each
  for (size_t i = 0; i < std::max<size_t>(1, kCalls / load.depth); ++i) {
    std::string burst;
    for (size_t d = 0; d < load.depth; ++d) burst += Frame(load.call, random);
    bursts.push_back(std::move(burst));
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(load.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Check(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "connect");
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  std::vector<float> times;
  std::vector<unsigned char> in(1 << 20);
  const auto end = Clock::now() + std::chrono::duration<double>(load.seconds);
  for (size_t i = 0; Clock::now() < end; ++i) {
    const std::string& burst = bursts[i % bursts.size()];
    const auto begin = Clock::now();
    for (size_t sent = 0; sent < burst.size();) {
      const ssize_t n = ::send(fd, burst.data() + sent, burst.size() - sent, MSG_NOSIGNAL);
      Check(n > 0, "send");
      sent += static_cast<size_t>(n);
    }
    size_t have = 0, at = 0;
    for (size_t replies = 0; replies < load.depth;) {
      const ssize_t n = ::recv(fd, in.data() + have, in.size() - have, 0);
      Check(n > 0, "recv");
      have += static_cast<size_t>(n);
      while (have - at >= 4) {
        const size_t size =
            size_t{in[at]} << 24 | size_t{in[at + 1]} << 16 | size_t{in[at + 2]} << 8 | in[at + 3];
        if (have - at < size + 4) break;
        // A reply (type 2) whose first field is the result (a struct, type 12, number 0) rather
        // than an exception. In front of it are version, name and sequence number.
        const size_t result = at + 4 + 8 + in[at + 11] + 4;
        Check(in[at + 7] == 2 && in[result] == 12 && in[result + 1] == 0 && in[result + 2] == 0,
              "the result of a call");
        at += size + 4;
        ++replies;
        times.push_back(std::chrono::duration<float>(Clock::now() - begin).count());
      }
    }
  }
  ::close(fd);
  return times;
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: serve_load PORT keys|fields|batch CONNECTIONS DEPTH SECONDS\n");
    return 2;
  }
  const Load load = {.port = std::atoi(argv[1]),
                     .call = argv[2],
                     .depth = static_cast<size_t>(std::max(1, std::atoi(argv[4]))),
                     .seconds = std::atof(argv[5])};
  const auto connections = static_cast<size_t>(std::max(1, std::atoi(argv[3])));
  std::vector<std::vector<float>> times(connections);
  {
    std::vector<std::jthread> threads;
    for (size_t c = 0; c < connections; ++c) {
      threads.emplace_back([&, c] { times[c] = Run(load, c); });
    }
  }
  std::vector<float> all;
  for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  const auto percentile = [&](double share) {
    return 1e3 * all[std::min(all.size() - 1,
                              static_cast<size_t>(share * static_cast<double>(all.size())))];
  };
  const double rate = static_cast<double>(all.size()) / load.seconds;
  std::printf("%.0f calls/s, %.0f rows/s, p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms\n", rate,
              rate * (load.call == "batch" ? kBatch : 1), percentile(0.5), percentile(0.99),
              percentile(0.999));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
