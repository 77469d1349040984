// Where a sparse model lives, and how a step reaches it.
#pragma once

#include <cstdint>

#include "sparse/local_store.h"
#include "sparse/weight_store.h"
#include "trainer/loop/backend.h"
#include "trainer/model/model_file.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {

// Not thread-safe.
class SparseBackend : public Backend {
 public:
  virtual const TrainingStart& start() const = 0;
  virtual BatchLearner& learner() = 0;
  // One of the two is null.
  virtual sparse::LocalStore* local_store() { return nullptr; }
  virtual sparse::WeightStore* remote_store() { return nullptr; }
  // Of this process, after the next step.
  virtual void SetResumePoint(const ResumePoint& /*after*/) {}
  // The backend outlives the source. `examples`: trained on.
  virtual ModelSource Source(uint64_t examples) = 0;
};

}  // namespace millrace::trainer
