// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/sparse_backend.h"

#include <utility>

#include "sparse/kernels.h"
#include "trainer/sparse/earlier_run.h"

namespace millrace::trainer {

Result<std::unique_ptr<LocalBackend>> LocalBackend::Create(
    const TrainOptions& options, const std::function<void(const std::string&)>& on_note) {
  ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName(options.kernel));
  ASSIGN_OR_RETURN(auto store, sparse::LocalStore::Create(options.shape, options.update));
  auto backend = std::make_unique<LocalBackend>(Private{}, std::move(store), options);
  if (options.resume) RETURN_IF_ERROR(backend->Restore(options.checkpoints, on_note));
  if (!backend->start_.resumed_step) RETURN_IF_ERROR(backend->WarmStart(options, on_note));
  backend->learner_ = MakeLocalLearner(*backend->store_, *kernels, options.kernel == "auto");
  return backend;
}

Status LocalBackend::Restore(const std::string& folder,
                             const std::function<void(const std::string&)>& on_note) {
  ASSIGN_OR_RETURN(LatestCheckpoint latest, checkpoints_.LoadLatest(*store_));
  if (!latest.state) {
    latest.warnings.push_back(folder + " has no checkpoint: starting from the beginning");
  }
  for (const std::string& warning : latest.warnings) {
    if (on_note) on_note(warning);
  }
  if (!latest.state) return {};
  store_ = std::move(latest.store);
  start_ = {.state = *latest.state, .resumed_step = latest.state->steps};
  return {};
}

Status LocalBackend::WarmStart(const TrainOptions& options,
                               const std::function<void(const std::string&)>& on_note) {
  ASSIGN_OR_RETURN(const WeightSource source, FindWeights(options));
  if (on_note && !source.note.empty()) on_note(source.note);
  if (source.earlier.checkpoint) {
    return ContinueFrom(*source.earlier.checkpoint, *store_, start_.state);
  }
  if (source.earlier.model.empty()) {
    if (!options.shape.intercept) return {};
    return store_->LoadWeight(io::kInterceptKey, static_cast<float>(options.intercept));
  }
  return trainer::WarmStart(source.earlier.model, *store_, source.may_grow);
}

}  // namespace millrace::trainer
