// The test part of the data: scored as often as asked, read from the files as seldom as possible.
#pragma once

#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "trainer/run/binary_metrics.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {

// Keeps the decoded batches in memory as long as they fit into `cache_bytes`, and reads the files
// again for every test otherwise. Not thread-safe.
class TestSet {
 public:
  TestSet(io::InputOptions input, uint64_t cache_bytes)
      : input_(std::move(input)), cache_bytes_(cache_bytes) {
    input_.for_tests = true;
  }

  // Begins to read the files in a thread of its own, so that the first test finds them read.
  void Preload();
  // The model's metrics on the whole set. An error if there is no example.
  Result<BinaryMetrics> Test(BatchLearner& learner);
  // The whole set, read if need be; empty if it does not fit into memory.
  Result<std::span<const io::CsrBatch>> Batches();
  // An error if a test with these results had no example.
  Status CheckNotEmpty(const BinaryMetrics& metrics) const;

 private:
  // Reads the files and calls visit(batch) for each batch, without visits_all only as long as they
  // fit into the cache; keeps them if all do.
  template <typename Visit>
  Status Read(bool visits_all, Visit visit);

  io::InputOptions input_;
  uint64_t cache_bytes_;
  std::vector<io::CsrBatch> kept_;
  uint64_t kept_bytes_ = 0;
  bool complete_ = false;        // kept_ is the whole set
  std::future<Status> loading_;  // last: waits for its thread
};

}  // namespace millrace::trainer
