#include "ps/server/strangers.h"

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

constexpr StrangerLimits kTwo = {.stay = milliseconds(600000), .most = 2, .least = milliseconds(1)};
constexpr int kSoonMs = 20000;

TEST(Strangers, TheOldestMakesRoomForTheNewest) {
  Strangers strangers(kTwo, {});
  const Ends a, b, c;
  const auto first = strangers.Begin(a.server());
  const auto second = strangers.Begin(b.server());
  EXPECT_FALSE(a.IsClosed(0));
  const auto third = strangers.Begin(c.server());
  EXPECT_TRUE(a.IsClosed(kSoonMs));
  EXPECT_FALSE(b.IsClosed(0));
  EXPECT_FALSE(c.IsClosed(0));
  EXPECT_EQ(strangers.closed(), 1u);
}

TEST(Strangers, WhoIsKnownStaysAndTakesNoRoom) {
  Strangers strangers(kTwo, {});
  const Ends a, b, c, d;
  auto known = strangers.Begin(a.server());
  known.End();
  const auto second = strangers.Begin(b.server());
  const auto third = strangers.Begin(c.server());
  EXPECT_EQ(strangers.closed(), 0u);
  const auto fourth = strangers.Begin(d.server());
  EXPECT_TRUE(b.IsClosed(kSoonMs));
  EXPECT_FALSE(a.IsClosed(0));
}

TEST(Strangers, NobodyStaysLongerThanTheLimit) {
  Strangers strangers({.stay = milliseconds(20)}, {});
  const Ends a, b, known;
  auto visit = strangers.Begin(known.server());
  visit.End();
  const auto first = strangers.Begin(a.server());
  EXPECT_TRUE(a.IsClosed(kSoonMs));
  const auto second = strangers.Begin(b.server());
  EXPECT_TRUE(b.IsClosed(kSoonMs));
  EXPECT_FALSE(known.IsClosed(0));
}

TEST(Strangers, ItIsSaidOnceThatTheyFillTheServer) {
  int notes = 0;
  Strangers strangers(kTwo, [&](const std::string&) { ++notes; });
  const std::array<Ends, 5> ends;
  std::vector<Strangers::Visit> visits;
  for (const Ends& one : ends) visits.push_back(strangers.Begin(one.server()));
  EXPECT_EQ(notes, 1);
  EXPECT_EQ(strangers.closed(), 3u);
}

}  // namespace
}  // namespace millrace::ps
