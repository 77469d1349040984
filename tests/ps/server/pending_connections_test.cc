// SPDX-License-Identifier: Apache-2.0
#include "ps/server/pending_connections.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace millrace::ps {
namespace {

using std::chrono::milliseconds;

// Two ends of a connection, the first of them the server's.
class Ends {
 public:
  Ends() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_.data()), 0); }
  ~Ends() {
    for (const int fd : fds_) ::close(fd);
  }
  int server() const { return fds_[0]; }
  bool IsClosed(int within_ms) const {
    pollfd poll_fd = {.fd = fds_[1], .events = POLLIN, .revents = 0};
    return ::poll(&poll_fd, 1, within_ms) == 1;
  }

 private:
  std::array<int, 2> fds_ = {};
};

constexpr PendingLimits kTwo = {
    .authenticate_within = milliseconds(600000), .max_connections = 2, .min_time = milliseconds(1)};
constexpr int kSoonMs = 20000;

TEST(PendingConnections, OldestPendingConnectionIsClosedForANewOne) {
  PendingConnections pending(kTwo, {});
  const Ends a, b, c;
  const auto first = pending.Add(a.server());
  const auto second = pending.Add(b.server());
  EXPECT_FALSE(a.IsClosed(0));
  const auto third = pending.Add(c.server());
  EXPECT_TRUE(a.IsClosed(kSoonMs));
  EXPECT_FALSE(b.IsClosed(0));
  EXPECT_FALSE(c.IsClosed(0));
  EXPECT_EQ(pending.closed(), 1u);
}

TEST(PendingConnections, AuthenticatedPeerStaysAndIsNotCounted) {
  PendingConnections pending(kTwo, {});
  const Ends a, b, c, d;
  auto known = pending.Add(a.server());
  known.Remove();
  const auto second = pending.Add(b.server());
  const auto third = pending.Add(c.server());
  EXPECT_EQ(pending.closed(), 0u);
  const auto fourth = pending.Add(d.server());
  EXPECT_TRUE(b.IsClosed(kSoonMs));
  EXPECT_FALSE(a.IsClosed(0));
}

TEST(PendingConnections, NoPendingConnectionOutlivesTheLimit) {
  PendingConnections pending({.authenticate_within = milliseconds(20)}, {});
  const Ends a, b, known;
  auto entry = pending.Add(known.server());
  entry.Remove();
  const auto first = pending.Add(a.server());
  EXPECT_TRUE(a.IsClosed(kSoonMs));
  const auto second = pending.Add(b.server());
  EXPECT_TRUE(b.IsClosed(kSoonMs));
  EXPECT_FALSE(known.IsClosed(0));
}

TEST(PendingConnections, ReachingTheLimitIsReportedOnce) {
  int notes = 0;
  PendingConnections pending(kTwo, [&](const std::string&) { ++notes; });
  const std::array<Ends, 5> ends;
  std::vector<PendingConnections::Entry> entries;
  for (const Ends& one : ends) entries.push_back(pending.Add(one.server()));
  EXPECT_EQ(notes, 1);
  EXPECT_EQ(pending.closed(), 3u);
}

}  // namespace
}  // namespace millrace::ps
