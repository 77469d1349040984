// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shared_shard.h"

#include "profiler/clock.h"

namespace millrace::ps {

int64_t SharedShard::NowNs() { return millrace::NowNs(); }

void SharedShard::Wait(std::chrono::milliseconds limit, const std::function<bool()>& done) {
  std::unique_lock held(mu_, std::adopt_lock);
  changed_.wait_for(held, limit, done);
  held.release();  // the caller's
}

bool SharedShard::WaitUntilFree() {
  if (busy_) Wait(call_time_, [&] { return !busy_ || shutting_down_; });
  return !busy_ && !shutting_down_;
}

bool SharedShard::WaitFor(std::chrono::milliseconds limit, const std::function<bool()>& ready) {
  Wait(limit, [&] { return shutting_down_ || (!busy_ && (ready() || !shard_.failed().ok())); });
  return !busy_ && !shutting_down_;
}

void SharedShard::Shutdown() {
  std::lock_guard held(mu_);
  shutting_down_ = true;
  changed_.notify_all();
}

std::optional<Status> SharedShard::RunLong(uint64_t id, std::function<Status(Shard&)> work) {
  if (!busy_ && !(work_done_ && work_id_ == id)) {
    busy_ = true;
    work_done_ = false;
    work_id_ = id;
    worker_ = std::jthread([this, work = std::move(work)] {
      const Status status = work(shard_);
      std::lock_guard held(mu_);
      work_status_ = status;
      work_done_ = true;
      busy_ = false;
      changed_.notify_all();
    });
  }
  Wait(call_time_, [&] { return work_done_ || shutting_down_; });
  if (!work_done_ || work_id_ != id) return std::nullopt;
  work_done_ = false;
  return work_status_;
}

}  // namespace millrace::ps
