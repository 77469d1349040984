// What the connections of a server share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "io/base/status.h"
#include "profiler/clock.h"
#include "ps/server/shard.h"
#include "ps/wire/connection_limits.h"
#include "ps/wire/messages.h"

namespace millrace::ps {

// Fields are guarded by `mu`. `busy` lends the shard to a thread that works on it for long without
// holding the lock: others wait for `changed` until it is over.
struct ServerState {
  ServerState(ShardOptions options, std::string job_token, int stranger_ms, int wait_ms)
      : token(std::move(job_token)),
        stranger_limits({.idle_ms = stranger_ms,
                         .message_ms = stranger_ms,
                         .max_string = kStrangerString,
                         .max_message = kStrangerMessage}),
        wait_time(wait_ms),
        shard(std::move(options)) {}

  // Before a look into the store. A checkpoint that is being written has everything already.
  void Settle() {
    if (!busy) shard.Settle();
  }
  // Waits until the shard is free; false when that takes longer than a call may.
  bool WaitFree(std::unique_lock<std::mutex>& lock);
  // Waits until `ready`, the job has failed, or a call has taken as long as it may.
  void WaitUntil(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);
  // Does `work` on the shard in a thread of its own. Its result, or nothing when it goes on longer
  // than a call may take: who asks again under the same `id` then waits for the same work.
  std::optional<Status> WorkLong(std::unique_lock<std::mutex>& lock, uint64_t id,
                                 const std::function<Status(Shard&)>& work);

  const std::string token;
  const ConnectionLimits stranger_limits;
  const std::chrono::milliseconds wait_time;
  // Differs from that of a server that was here before.
  const int64_t instance = std::chrono::system_clock::now().time_since_epoch().count();

  bool poll = true;  // before the first connection only

  std::mutex mu;
  std::condition_variable changed;
  Shard shard;
  bool busy = false;
  bool stopping = false;
  std::map<std::string, CallCount> calls;
  uint64_t refused = 0;  // connections that were closed for what they sent

  // The long work: a checkpoint that is being written or restored.
  uint64_t work_id = 0;
  bool work_done = false;
  Status work_status;
  std::jthread worker;
};

}  // namespace millrace::ps
