// A job in which several workers train one net: what the training loop knows of the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convnets/train/progress_state.h"
#include "io/base/status.h"
#include "sparse/dense_store.h"

namespace millrace::convnets {

struct JobSums {
  uint64_t steps = 0;     // updates
  uint64_t examples = 0;  // images learnt by all workers
  double loss = 0;        // summed over them, each before it was learnt
};

// Not thread-safe. Calls but for store() are made when store().Init is over.
class NetJob {
 public:
  virtual ~NetJob() = default;
  virtual sparse::DenseStore& store() = 0;
  virtual bool chief() const = 0;  // worker 0: it tests, and writes checkpoints and the model
  // Where this worker goes on from: after a restart of the job, or of the worker alone.
  virtual Result<std::optional<ProgressState>> place() = 0;
  // What the present step is made of, and the worker's state after it: before the first Push with
  // the images alone, and again before the first Pull with the loss.
  virtual void Describe(uint32_t images, double loss, const ProgressState& after) = 0;
  virtual JobSums sums() const = 0;
  // The chief has ended the job early.
  virtual bool stopped() const = 0;
  virtual Status Stop() = 0;  // the chief's
  // The chief's: all servers write a checkpoint.
  virtual Status Checkpoint(const ProgressState& state) = 0;
  // This worker trains no more. On return of the chief's call nobody does, and the parameters are
  // the last ones, unless it has called Stop.
  virtual Status Finish() = 0;
};

}  // namespace millrace::convnets
