// Connections that have not shown the job's token yet. Each has a time limit in all, however slowly
// it talks, and when there are too many the oldest makes room for the newest: who knows the token
// shows it at once.
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

struct StrangerLimits {
  std::chrono::milliseconds stay;        // that each has to show the token
  size_t most = 128;                     // at a time
  std::chrono::milliseconds least{100};  // that each may stay even when others wait
};

// Thread-safe.
class Strangers {
 public:
  // `on_note` hears, once, that strangers fill the server; it may be empty.
  Strangers(const StrangerLimits& limits, std::function<void(const std::string&)> on_note);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  // One connection, for as long as it is a stranger.
  class Visit {
   public:
    Visit(Strangers& strangers, uint64_t id) : strangers_(&strangers), id_(id) {}
    Visit(Visit&& other) noexcept : strangers_(std::exchange(other.strangers_, nullptr)) {
      id_ = other.id_;
    }
    Visit& operator=(Visit&&) = delete;
    ~Visit() { End(); }
    // It is known now, or gone.
    void End();

   private:
    Strangers* strangers_;
    uint64_t id_ = 0;
  };

  // Waits until there is room for one more.
  Visit Begin(int socket);

  // Connections that were closed so far.
  uint64_t closed() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    int socket;  // a second descriptor of the connection: its number cannot become another's
    Clock::time_point since;
  };

  void Watch(const std::stop_token& stop);
  void CloseOldest();
  void Forget(uint64_t id);

  const StrangerLimits limits_;
  const std::function<void(const std::string&)> on_note_;
  mutable std::mutex mu_;
  std::condition_variable_any changed_;
  std::map<uint64_t, Entry> entries_;  // the oldest first
  uint64_t next_ = 0, closed_ = 0;
  bool has_noted_ = false;
  std::jthread watch_;
};

}  // namespace millrace::ps
