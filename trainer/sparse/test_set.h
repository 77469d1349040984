// SPDX-License-Identifier: Apache-2.0
// The test data. Evaluates the model any number of times and reads the files as rarely as possible.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "sparse/kernels.h"
#include "sparse/weight_store.h"
#include "trainer/loop/training_loop.h"
#include "trainer/run/binary_metrics.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {

// Keeps the decoded batches in memory if they fit into `cache_bytes`, and reads the files again for
// every evaluation otherwise. Not thread-safe. An evaluation gives the metrics of binary_metrics.h
// on the whole set; an error if there is no example.
class TestSet {
 public:
  TestSet(io::InputOptions input, uint64_t cache_bytes)
      : input_(std::move(input)), cache_bytes_(cache_bytes) {
    input_.for_evaluation = true;
  }

  // Starts to read the files in another thread, so that the first evaluation need not wait.
  void Preload();

  // Deferred: get() computes it. `learner` and the set must outlive that call.
  Evaluation Evaluate(BatchLearner& learner);
  // Pulls the weights now and scores them in another thread, while `store` may change. A set that
  // does not fit into memory, also with the factors of its batches, is evaluated with `learner`,
  // deferred. Batches are compacted; the set outlives the result.
  Evaluation EvaluateInBackground(BatchLearner& learner, sparse::WeightStore& store,
                                  const sparse::Kernels& kernels);

  // Calls visit(batch) for all batches, and ends with its first error. Reads the files like an
  // evaluation.
  Status ForEach(const std::function<Status(const io::CsrBatch& batch)>& visit);
  // Of a sum over the whole set; an error if there is no example.
  Result<std::vector<NamedValue>> MetricsOf(BinaryMetricsSum& sum) const;

  // Calls visit(batch) for one batch after the other until it returns false. Not for files that
  // can be read only once and are not in memory: then it does nothing.
  Status VisitFirst(const std::function<bool(const io::CsrBatch& batch)>& visit);

  // The whole set, which is read if necessary; empty if it does not fit into memory.
  Result<std::span<const io::CsrBatch>> Batches();

 private:
  // Reads the files and calls visit(batch) for each batch, without visits_all only as long as they
  // fit into the cache; keeps them if all do.
  template <typename Visit>
  Status Read(bool visits_all, Visit visit);
  Result<std::vector<NamedValue>> Score(BatchLearner& learner);

  io::InputOptions input_;
  uint64_t cache_bytes_;
  std::vector<io::CsrBatch> kept_;
  uint64_t kept_bytes_ = 0;
  bool complete_ = false;        // kept_ is the whole set
  std::future<Status> loading_;  // last: its destructor joins the thread
};

}  // namespace millrace::trainer
