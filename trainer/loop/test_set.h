// The test part of the data: scored as often as asked, read from the files as seldom as possible.
#pragma once

#include <cstdint>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "trainer/loop/batch_learner.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::trainer {

// Keeps the decoded batches in memory as long as they fit into `cache_bytes`, and reads the files
// again for every test otherwise. Not thread-safe.
class TestSet {
 public:
  TestSet(io::InputOptions input, uint64_t cache_bytes)
      : input_(std::move(input)), cache_bytes_(cache_bytes) {}

  // The model's metrics on the whole set. An error if there is no example.
  io::Result<BinaryMetrics> Test(BatchLearner& learner);

 private:
  io::Status TestFromFiles(BatchLearner& learner, BinaryMetricsSum& sum);

  io::InputOptions input_;
  uint64_t cache_bytes_;
  std::vector<io::CsrBatch> kept_;
  uint64_t kept_bytes_ = 0;
  bool complete_ = false;  // kept_ is the whole set
};

}  // namespace millrace::trainer
