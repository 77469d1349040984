// SPDX-License-Identifier: Apache-2.0
// What a shard knows of its workers: one record per worker, and which of them is slow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/pod_vector.h"
#include "ps/server/reply_cache.h"

namespace millrace::ps {

// A worker's contribution to a step, decoded.
struct Push {
  uint64_t sequence = 0;
  uint64_t step = 0;  // of the job, whose weights the gradient was computed from
  SharedKeys list;
  PodVector<float> gradient;  // of the summed loss, parallel to list->keys
  uint32_t rows = 0;
  double weight = 0;  // summed over the rows
  double loss = 0;    // summed over the rows, before the step
  std::string state;  // of the worker after this push; opaque
};

// What a synchronous step needs.
struct StepQuorum {
  size_t active = 0;  // workers that will push, or have
  size_t needed = 0;  // gradients, of that many

  // `late` other workers' last gradients arrived after their step: they may be blocked, on another
  // shard, on workers whose gradients are here.
  bool IsEnough(size_t gradients, size_t late) const {
    return gradients >= needed || gradients + late >= active;
  }
};

enum class WorkerPhase { kAbsent, kJoined, kLost, kFinished, kLeft };
inline const char* WorkerPhaseName(WorkerPhase phase) {
  constexpr const char* kNames[] = {"absent", "training", "lost", "finished", "left"};
  return kNames[static_cast<size_t>(phase)];
}

struct WorkerRecord {
  std::string name;  // "host, pid 123"
  WorkerPhase phase = WorkerPhase::kAbsent;
  uint64_t generation = 0;  // of its connection: calls of an older one are refused
  uint64_t process = 0;     // that made the connection; 0: unknown
  uint64_t attempt = 0;     // of that process
  bool connected = false;   // also true for a worker that has left and calls again
  int64_t lost_ns = 0;      // when the connection was lost
  bool given_up = false;    // lost for too long to be waited for
  bool finished = false;    // it sends no more pushes, even if it reconnects

  uint64_t received = 0;       // the sequence of the last push that arrived
  std::string received_state;  // that it brought
  uint64_t applied = 0;        // the same for the last push that was applied (or dropped)
  std::string applied_state;
  std::optional<Push> pending;  // received and not applied yet
  int64_t arrived_ns = 0;
  uint64_t dropped_at = ~uint64_t{0};  // the job's step when its last push was dropped as late

  ReplyCache replies;

  uint64_t pushes = 0;
  uint64_t examples = 0;
  uint64_t dropped = 0;
  int64_t waited_ns = 0;  // by other workers, for this one
};

// Not thread-safe.
class StragglerWatch {
 public:
  explicit StragglerWatch(size_t workers) : waited_before_(workers) {}

  // A step is made of the pushes that are pending: the time between the last arrival and the one
  // before it counts as waited for the last worker. Periodically reports workers that the others
  // waited for most of the time.
  using Note = std::function<void(size_t worker, const std::string& what)>;
  void CountStep(std::span<WorkerRecord> workers, int64_t now_ns, const Note& note);

  // The last worker to reach the last step; -1 before the first.
  int last_worker() const { return last_worker_; }

 private:
  void CountLast(std::span<WorkerRecord> workers);

  int last_worker_ = -1;
  int64_t since_ns_ = 0;                // start of the interval over which slowness is measured
  std::vector<int64_t> waited_before_;  // each worker's waited_ns then
};

}  // namespace millrace::ps
