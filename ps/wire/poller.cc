#include "ps/wire/poller.h"

#include <sched.h>
#include <sys/socket.h>

#include <errno.h>
#include <algorithm>
#include <chrono>
#include <utility>

namespace millrace::ps {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// Longer than most answers on one machine or in one rack take.
constexpr microseconds kLookFor(200);
// An offer of the core that nobody takes up costs less than a microsecond.
constexpr microseconds kTakenFrom(10);
constexpr uint32_t kMaxSkip = 4096;

// Whether a read returns at once: with bytes, or because the connection is over.
bool HasInput(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
         (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace

Poller::End Poller::Look(int socket) {
  if (HasInput(socket)) return End::kAtOnce;
  const auto begin = steady_clock::now();
  for (auto now = begin; now - begin < kLookFor;) {
    ::sched_yield();
    const auto before = std::exchange(now, steady_clock::now());
    if (now - before > kTakenFrom) return End::kInVain;
    if (HasInput(socket)) return End::kInTime;
  }
  return End::kInVain;
}

void Poller::Await(int socket) {
  if (skip_ > 0) {
    --skip_;
    return;
  }
  const End end = Look(socket);
  if (end == End::kInTime) next_skip_ /= 2;  // what is there at once tells nothing
  if (end != End::kInVain) return;
  next_skip_ = std::min(kMaxSkip, 2 * next_skip_ + 1);
  skip_ = next_skip_;
}

}  // namespace millrace::ps
