// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/sparse_backend.h"

#include <utility>

#include "io/state/manifest.h"
#include "sparse/kernels.h"
#include "trainer/sparse/checkpoint.h"

namespace millrace::trainer {

Result<std::unique_ptr<LocalBackend>> LocalBackend::Create(
    const TrainOptions& options, const std::function<void(const std::string&)>& on_note) {
  ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName(options.kernel));
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(options.shape, options.update));
  auto backend = std::make_unique<LocalBackend>(Private{}, std::move(store), options.checkpoints);
  if (options.resume) RETURN_IF_ERROR(backend->Restore(options, on_note));
  if (!backend->start_.resumed_step && !options.model_in.empty()) {
    RETURN_IF_ERROR(WarmStart(options.model_in, *backend->store_));
  } else if (!backend->start_.resumed_step && options.shape.intercept) {
    RETURN_IF_ERROR(
        backend->store_->LoadWeight(io::kInterceptKey, static_cast<float>(options.intercept)));
  }
  backend->learner_ = MakeLocalLearner(*backend->store_, *kernels, options.kernel == "auto");
  return backend;
}

Status LocalBackend::Restore(const TrainOptions& options,
                             const std::function<void(const std::string&)>& on_note) {
  RETURN_IF_ERROR(io::CheckNoShards(checkpoints_));
  ASSIGN_OR_RETURN(LatestCheckpoint latest, LoadLatestCheckpoint(checkpoints_, *store_));
  if (!latest.state) {
    latest.warnings.push_back(checkpoints_ + " has no checkpoint: starting from the beginning");
  }
  for (const std::string& warning : latest.warnings) {
    if (on_note) on_note(warning);
  }
  if (!latest.state) return {};
  if (latest.state->options_digest != OptionsDigest(options)) {
    return Invalid("resume: the order of the data would not be that of the checkpoint");
  }
  start_ = {.state = *latest.state, .resumed_step = latest.state->steps};
  return {};
}

Status LocalBackend::Checkpoint(const TrainingState& state) {
  return SaveCheckpoint(checkpoints_, *store_, state);
}

}  // namespace millrace::trainer
