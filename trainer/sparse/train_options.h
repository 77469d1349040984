// What a run of sparse logistic regression learns, from what, and where it ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "io/queue/input_options.h"
#include "sparse/local_store.h"
#include "sparse/update_options.h"
#include "trainer/loop/early_stop.h"
#include "trainer/sparse/cluster_backend.h"

namespace millrace::trainer {

struct TrainOptions {
  io::InputOptions train;
  io::InputOptions test = {};  // without files: no tests
  sparse::ModelShape shape = {};
  sparse::UpdateOptions update = {};
  // "auto": the fastest way. "native", "mkl", "plain": the compacted way with those kernels.
  std::string kernel = "auto";
  // Threads that train without locks (indexed SGD only): 0 and 1 train in one thread, as is
  // deterministic.
  uint64_t hogwild = 0;
  std::optional<ClusterOptions> cluster = {};  // a worker of a job; none: one process
  uint64_t max_examples = 0;                   // of all workers together; 0: all epochs
  uint64_t eval_every = 0;  // training examples between tests; 0: at the end only
  EarlyStopRule early_stop = {};
  std::string model_in;           // warm start
  std::string checkpoints;        // folder; empty: none are written
  uint64_t checkpoint_every = 0;  // training examples; 0: only when stopped
  bool resume = false;
  uint64_t test_cache_bytes = 64 << 20;

  Status Validate() const;
};

// What decides which rows come next, and what they mean: a resumed run must agree in it.
std::string OptionsDigest(const TrainOptions& options);

}  // namespace millrace::trainer
