#include "ps/server/server_state.h"

namespace millrace::ps {

bool ServerState::WaitFree(std::unique_lock<std::mutex>& lock) {
  changed.wait_for(lock, wait_time, [&] { return !busy || stopping; });
  return !busy && !stopping;
}

void ServerState::WaitUntil(std::unique_lock<std::mutex>& lock,
                            const std::function<bool()>& ready) {
  changed.wait_for(lock, wait_time, [&] { return ready() || stopping || !shard.failed().ok(); });
}

std::optional<Status> ServerState::WorkLong(std::unique_lock<std::mutex>& lock, uint64_t id,
                                            const std::function<Status(Shard&)>& work) {
  if (!busy && !(work_done && work_id == id)) {
    busy = true;
    work_done = false;
    work_id = id;
    worker = std::jthread([this, work] {
      const Status status = work(shard);
      std::lock_guard guard(mu);
      work_status = status;
      work_done = true;
      busy = false;
      changed.notify_all();
    });
  }
  changed.wait_for(lock, wait_time, [&] { return work_done || stopping; });
  if (!work_done || work_id != id) return std::nullopt;
  work_done = false;
  return work_status;
}

}  // namespace millrace::ps
