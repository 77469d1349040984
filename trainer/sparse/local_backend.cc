#include "trainer/sparse/local_backend.h"

#include <utility>

#include "trainer/sparse/checkpoint.h"

namespace millrace::trainer {

LocalHome::LocalHome(std::unique_ptr<sparse::LocalStore> store, const sparse::Kernels& kernels,
                     bool may_be_direct, std::string checkpoints)
    : store_(std::move(store)),
      learner_(MakeLocalLearner(*store_, kernels, may_be_direct)),
      checkpoints_(std::move(checkpoints)) {}

Status LocalHome::Checkpoint(const TrainingState& state) {
  return SaveCheckpoint(checkpoints_, *store_, state);
}

}  // namespace millrace::trainer
