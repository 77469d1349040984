// SPDX-License-Identifier: Apache-2.0
// Connections whose peer has not sent the job's token yet. Each has one time limit, however slowly
// its bytes arrive. When there are too many, the oldest is closed for the newest: a peer that knows
// the token sends it at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace millrace::ps {

struct PendingLimits {
  std::chrono::milliseconds authenticate_within;
  size_t max_connections = 128;
  std::chrono::milliseconds min_time{100};  // that each has, even when others queue up
};

// Thread-safe.
class PendingConnections {
 public:
  // `on_note` is called once, when pending connections reach the limit; it may be empty.
  PendingConnections(const PendingLimits& limits, std::function<void(const std::string&)> on_note);
  ~PendingConnections();
  PendingConnections(const PendingConnections&) = delete;
  PendingConnections& operator=(const PendingConnections&) = delete;

  // One connection, for as long as it is pending.
  class Entry {
   public:
    Entry(PendingConnections& all, uint64_t id) : all_(&all), id_(id) {}
    Entry(Entry&& other) noexcept : all_(std::exchange(other.all_, nullptr)), id_(other.id_) {}
    Entry& operator=(Entry&&) = delete;
    ~Entry() { Remove(); }
    // The peer is authenticated, or gone.
    void Remove();

   private:
    PendingConnections* all_;
    uint64_t id_;
  };

  // Waits until there is room for one more.
  Entry Add(int socket);

  // Connections that were closed so far.
  uint64_t closed() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    int socket;  // a second descriptor of the connection: its number cannot be reused meanwhile
    Clock::time_point since;
  };

  void Watch(const std::stop_token& stop);
  void CloseOldest();
  void Remove(uint64_t id);

  const PendingLimits limits_;
  const std::function<void(const std::string&)> on_note_;
  mutable std::mutex mu_;
  std::condition_variable_any changed_;
  std::map<uint64_t, Pending> pending_;  // the oldest first
  uint64_t next_ = 0, closed_ = 0;
  bool has_noted_ = false;
  std::jthread watch_;
};

}  // namespace millrace::ps
