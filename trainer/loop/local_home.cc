#include "trainer/loop/local_home.h"

#include <utility>

#include "trainer/loop/checkpoint.h"

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
