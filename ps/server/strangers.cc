#include "ps/server/strangers.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace millrace::ps {

Strangers::Strangers(const StrangerLimits& limits, std::function<void(const std::string&)> on_note)
    : limits_(limits), on_note_(std::move(on_note)) {
  watch_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
}

Strangers::~Strangers() {
  watch_.request_stop();
  watch_.join();
  for (const auto& [id, entry] : entries_) ::close(entry.socket);
}

Strangers::Visit Strangers::Begin(int socket) {
  std::unique_lock lock(mu_);
  while (entries_.size() >= limits_.most) {
    if (!std::exchange(has_noted_, true) && on_note_) {
      on_note_("strangers fill the " + std::to_string(limits_.most) +
               " connections for those who have not joined: the oldest are closed");
    }
    const Clock::time_point due = entries_.begin()->second.since + limits_.least;
    if (Clock::now() >= due) {
      CloseOldest();
    } else {
      changed_.wait_until(lock, due, [&] { return entries_.size() < limits_.most; });
    }
  }
  const uint64_t id = next_++;
  const int second = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
  // Without a descriptor to spare it has the socket's own time limits alone.
  if (second >= 0) entries_.emplace(id, Entry{second, Clock::now()});
  if (entries_.size() == 1) changed_.notify_all();
  return {*this, id};
}

uint64_t Strangers::closed() const {
  std::lock_guard lock(mu_);
  return closed_;
}

void Strangers::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mu_);
  while (!stop.stop_requested()) {
    if (entries_.empty()) {
      changed_.wait(lock, stop, [&] { return !entries_.empty(); });
      continue;
    }
    const Clock::time_point due = entries_.begin()->second.since + limits_.stay;
    if (Clock::now() >= due) {
      CloseOldest();
    } else {
      changed_.wait_until(lock, stop, due, [] { return false; });
    }
  }
}

// The connection's own thread finds it at its end.
void Strangers::CloseOldest() {
  ::shutdown(entries_.begin()->second.socket, SHUT_RDWR);
  ::close(entries_.begin()->second.socket);
  entries_.erase(entries_.begin());
  ++closed_;
}

void Strangers::Forget(uint64_t id) {
  std::lock_guard lock(mu_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  ::close(found->second.socket);
  entries_.erase(found);
  changed_.notify_all();
}

void Strangers::Visit::End() {
  if (strangers_) std::exchange(strangers_, nullptr)->Forget(id_);
}

}  // namespace millrace::ps
