// SPDX-License-Identifier: Apache-2.0
#include "ps/server/pending_connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace millrace::ps {

PendingConnections::PendingConnections(const PendingLimits& limits,
                                       std::function<void(const std::string&)> on_note)
    : limits_(limits), on_note_(std::move(on_note)) {
  watch_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
}

PendingConnections::~PendingConnections() {
  watch_.request_stop();
  watch_.join();
  for (const auto& [id, pending] : pending_) ::close(pending.socket);
}

PendingConnections::Entry PendingConnections::Add(int socket) {
  std::unique_lock lock(mu_);
  while (pending_.size() >= limits_.max_connections) {
    if (!std::exchange(has_noted_, true) && on_note_) {
      on_note_("unauthenticated peers hold all " + std::to_string(limits_.max_connections) +
               " pending connections: the oldest are closed");
    }
    const Clock::time_point due = pending_.begin()->second.since + limits_.min_time;
    if (Clock::now() >= due) {
      CloseOldest();
    } else {
      changed_.wait_until(lock, due, [&] { return pending_.size() < limits_.max_connections; });
    }
  }
  const uint64_t id = next_++;
  const int second = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
  // Without a descriptor to spare it has the socket's own time limits alone.
  if (second >= 0) pending_.emplace(id, Pending{second, Clock::now()});
  if (pending_.size() == 1) changed_.notify_all();
  return {*this, id};
}

uint64_t PendingConnections::closed() const {
  std::lock_guard lock(mu_);
  return closed_;
}

void PendingConnections::Watch(const std::stop_token& stop) {
  std::unique_lock lock(mu_);
  while (!stop.stop_requested()) {
    if (pending_.empty()) {
      changed_.wait(lock, stop, [&] { return !pending_.empty(); });
      continue;
    }
    const Clock::time_point due = pending_.begin()->second.since + limits_.authenticate_within;
    if (Clock::now() >= due) {
      CloseOldest();
    } else {
      changed_.wait_until(lock, stop, due, [] { return false; });
    }
  }
}

// The connection's own thread finds it at its end.
void PendingConnections::CloseOldest() {
  ::shutdown(pending_.begin()->second.socket, SHUT_RDWR);
  ::close(pending_.begin()->second.socket);
  pending_.erase(pending_.begin());
  ++closed_;
}

void PendingConnections::Remove(uint64_t id) {
  std::lock_guard lock(mu_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  ::close(found->second.socket);
  pending_.erase(found);
  changed_.notify_all();
}

void PendingConnections::Entry::Remove() {
  if (all_) std::exchange(all_, nullptr)->Remove(id_);
}

}  // namespace millrace::ps
