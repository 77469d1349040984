// A test of a model that others go on learning: its weights are taken at once and scored later.
#pragma once

#include <future>
#include <span>
#include <vector>

#include "io/base/pod_vector.h"
#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "sparse/kernels.h"
#include "sparse/weight_store.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::trainer {

// One test at a time. Not thread-safe.
class BackgroundTest {
 public:
  // Pulls the weights of `batches`, which are compacted and stay as they are until the test is
  // taken, and scores them in a thread of its own.
  Status Begin(std::span<const io::CsrBatch> batches, sparse::WeightStore& store,
               const sparse::Kernels& kernels);
  // Begun and not taken.
  bool pending() const { return result_.valid(); }
  // Whether Take would not wait. Only for a pending test.
  bool done() const;
  BinaryMetrics Take() { return result_.get(); }

 private:
  std::vector<PodVector<float>> weights_;  // by batch
  std::future<BinaryMetrics> result_;      // last: waits for its thread
};

}  // namespace millrace::trainer
