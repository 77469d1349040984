// Where the parameters of a net live, and how a step reaches them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/base/status.h"
#include "io/state/state_fields.h"
#include "sparse/dense_store.h"
#include "sparse/local_dense_store.h"
#include "trainer/loop/backend.h"

namespace millrace::convnets {

struct NetStart {
  std::span<const sparse::DenseParam> params;  // the net's memory, with its initial weights
  io::StateFields run;                         // must be the same when a run is resumed
  sparse::LocalDenseStore::ParallelFor parallel_for = nullptr;
};

// Not thread-safe.
class NetBackend : public trainer::Backend {
 public:
  // To be called once, first. On return the parameters' memory holds the weights to start with.
  virtual Result<trainer::TrainingStart> Start(const NetStart& start) = 0;
  virtual sparse::DenseStore& store() = 0;
  // What the present step is made of, and this process's resume point after it: before the first
  // Push with the images alone, and again before the first Pull with the loss.
  virtual void Describe(uint32_t /*images*/, double /*loss*/,
                        const trainer::ResumePoint& /*after*/) {}
};

}  // namespace millrace::convnets
