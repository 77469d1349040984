// Whom the others wait for in synchronous steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ps/server/worker_record.h"

namespace millrace::ps {

// Not thread-safe.
class StragglerWatch {
 public:
  explicit StragglerWatch(size_t workers) : waited_before_(workers) {}

  // A step is made of the pushes that are pending: the time between the last arrival and the one
  // before it is booked to the last worker. Once in a while, tells of workers that the others have
  // been waiting for most of the time.
  using Note = std::function<void(size_t worker, const std::string& what)>;
  void CountStep(std::span<WorkerRecord> workers, int64_t now_ns, const Note& note);

  // Who came last into the last step; -1 before the first.
  int last_worker() const { return last_worker_; }

 private:
  void CountLast(std::span<WorkerRecord> workers);

  int last_worker_ = -1;
  int64_t since_ns_ = 0;                // start of the stretch over which slowness is judged
  std::vector<int64_t> waited_before_;  // each worker's waited_ns then
};

}  // namespace millrace::ps
