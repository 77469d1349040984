// SPDX-License-Identifier: Apache-2.0
#include "profiler/resources.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "profiler/trace.h"

namespace millrace::profiler {
namespace {

// Both ends of a TCP connection over the loopback.
struct Connection {
  Connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
    server = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  void Close() {
    ::close(client);
    ::close(server);
  }
  // There and back.
  void Exchange(size_t bytes) const {
    std::string text(bytes, 'x');
    ASSERT_EQ(::send(client, text.data(), bytes, 0), static_cast<ssize_t>(bytes));
    ASSERT_EQ(::recv(server, text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
    ASSERT_EQ(::send(server, text.data(), bytes, 0), static_cast<ssize_t>(bytes));
    ASSERT_EQ(::recv(client, text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }
  int client = -1, server = -1;
};

TEST(ResourcesTest, CpuTimeGrowsWithWork) {
  ResourceReader reader;
  const Resources before = reader.Read();
  double spent = 0;
  volatile uint64_t sum = 0;
  while (spent < 0.05) {
    for (int i = 0; i < 1000000; ++i) sum = sum + 1;
    const Resources after = reader.Read();
    spent = after.user_s_total + after.system_s_total - before.user_s_total - before.system_s_total;
    ASSERT_LT(after.steady_ns - before.steady_ns, 60'000'000'000);
  }
  const Resources after = reader.Read();
  EXPECT_GT(after.host_busy_s_total, 0);
  EXPECT_GT(after.resident_bytes, 0u);
  EXPECT_GE(after.peak_resident_bytes, after.resident_bytes / 2);
  EXPECT_GT(after.host_used_bytes, after.resident_bytes / 2);
}

TEST(ResourcesTest, OwnConnectionsAreCountedAndStayCountedWhenClosed) {
  constexpr size_t kBytes = 30000;
  ResourceReader reader;
  const Resources before = reader.Read();
  Connection connection;
  connection.Exchange(kBytes);
  const Resources open = reader.Read();
  EXPECT_EQ(open.tcp_connections, before.tcp_connections + 2);
  EXPECT_EQ(open.tcp_received_bytes_total - before.tcp_received_bytes_total, 2 * kBytes);
  EXPECT_GE(open.tcp_sent_bytes_total - before.tcp_sent_bytes_total, kBytes);
  EXPECT_GE(open.loopback_bytes_total - before.loopback_bytes_total, 2 * kBytes);
  EXPECT_GT(open.tcp_sent_packets_total, before.tcp_sent_packets_total);
  connection.Close();
  const Resources closed = reader.Read();
  EXPECT_EQ(closed.tcp_connections, before.tcp_connections);
  EXPECT_EQ(closed.tcp_received_bytes_total, open.tcp_received_bytes_total);
}

TEST(ResourcesTest, ThreadsHaveNamesAndTimes) {
  Resources r;
  std::jthread([&] {
    NameThread("main, or not");
    r = ResourceReader().Read();
  }).join();
  ASSERT_FALSE(r.threads.empty());
  EXPECT_TRUE(std::any_of(r.threads.begin(), r.threads.end(),
                          [](const ThreadCpu& t) { return t.name == "main_ or not"; }));
}

TEST(ResourcesTest, LinesHaveTheColumnsOfTheHeader) {
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  const std::string line = ResourcesCsvLine(ResourceReader().Read(), -7);
  EXPECT_EQ(commas(line), commas(ResourcesCsvHeader()));
  EXPECT_EQ(line.substr(line.find(',') + 1, 3), "-7,");
}

}  // namespace
}  // namespace millrace::profiler
