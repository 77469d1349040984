// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/model_set.h"

#include <algorithm>
#include <utility>

#include "io/base/pod_vector.h"
#include "profiler/trace.h"
#include "sparse/ftrl_lanes.h"
#include "sparse/kernels.h"
#include "trainer/sparse/sparse_backend.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using profiler::Cat;

class SingleModel final : public ModelGroup {
 public:
  explicit SingleModel(std::unique_ptr<LocalBackend> backend) : backend_(std::move(backend)) {}

  size_t size() const override { return 1; }
  bool wants_compact_batches() const override {
    return backend_->learner().wants_compact_batches();
  }
  bool wants_next() const override { return backend_->learner().wants_next(); }
  const TrainingState& start() const override { return backend_->start().state; }

  Status Learn(const CsrBatch& batch, const CsrBatch* next, std::span<const char> active,
               std::span<double> losses) override {
    if (active[0] == 0) return {};
    ASSIGN_OR_RETURN(losses[0], backend_->learner().Learn(batch, next));
    return {};
  }

  Status Score(const CsrBatch& batch, const TakeMargins& take) override {
    ASSIGN_OR_RETURN(const std::span<const float> margins, backend_->learner().Score(batch));
    take(0, margins);
    return {};
  }

  Result<sparse::LocalStore*> Store(size_t) override { return backend_->local_store(); }

 private:
  std::unique_ptr<LocalBackend> backend_;
};

class SharedModels final : public ModelGroup {
 public:
  static Result<std::unique_ptr<ModelGroup>> Create(std::span<const TrainOptions> options) {
    ASSIGN_OR_RETURN(const sparse::Kernels* kernels, sparse::KernelsByName(options.front().kernel));
    std::vector<sparse::UpdateOptions> update;
    for (const TrainOptions& own : options) update.push_back(own.update);
    ASSIGN_OR_RETURN(auto lanes, sparse::FtrlLanes::Create(options.front().shape, update));
    auto group = std::make_unique<SharedModels>(std::move(lanes), *kernels, options);
    for (size_t m = 0; m < options.size(); ++m) RETURN_IF_ERROR(group->StartIntercept(m));
    return std::unique_ptr<ModelGroup>(std::move(group));
  }

  SharedModels(std::unique_ptr<sparse::FtrlLanes> lanes, const sparse::Kernels& kernels,
               std::span<const TrainOptions> options)
      : lanes_(std::move(lanes)),
        kernels_(kernels),
        options_(options.begin(), options.end()),
        frozen_(options.size()) {}

  size_t size() const override { return options_.size(); }
  bool wants_compact_batches() const override { return false; }
  const TrainingState& start() const override { return start_; }

  Status Learn(const CsrBatch& batch, const CsrBatch*, std::span<const char> active,
               std::span<double> losses) override {
    for (size_t m = 0; m < size(); ++m) {
      if (active[m] == 0 && std::exchange(frozen_[m], 1) == 0) lanes_->Freeze(m);
    }
    const size_t rows = batch.rows();
    margins_.resize(size() * rows);
    store_.reset();
    {
      TRACE_SCOPE("margins", Cat::kCompute, ShapeOf(batch));
      lanes_->Begin(batch, margins_);
    }
    {
      TRACE_SCOPE("loss_residuals", Cat::kCompute, {.rows = static_cast<int64_t>(rows)});
      for (size_t m = 0; m < size(); ++m) {
        const std::span<float> own = std::span(margins_).subspan(m * rows, rows);
        const double loss = kernels_.loss_and_residuals(own, batch.labels, batch.weights, own);
        if (active[m] != 0) losses[m] = loss;
      }
    }
    TRACE_SCOPE("update", Cat::kCompute, ShapeOf(batch));
    lanes_->Finish(batch, margins_);
    return {};
  }

  Status Score(const CsrBatch& batch, const TakeMargins& take) override {
    const size_t rows = batch.rows();
    margins_.resize(size() * rows);
    {
      TRACE_SCOPE("margins", Cat::kCompute, ShapeOf(batch));
      lanes_->Margins(batch, margins_);
    }
    for (size_t m = 0; m < size(); ++m) take(m, std::span(margins_).subspan(m * rows, rows));
    return {};
  }

  Result<sparse::LocalStore*> Store(size_t model) override {
    if (store_ && stored_ == model) return store_.get();
    store_.reset();  // its memory first
    ASSIGN_OR_RETURN(store_,
                     sparse::LocalStore::Create(options_[model].shape, options_[model].update));
    RETURN_IF_ERROR(lanes_->CopyTo(model, *store_));
    stored_ = model;
    return store_.get();
  }

 private:
  profiler::TraceArgs ShapeOf(const CsrBatch& batch) const {
    const auto nnz = static_cast<int64_t>(batch.cols.size());
    const auto slot = static_cast<int64_t>(2 * sizeof(float) * size());
    return {.rows = static_cast<int64_t>(batch.rows()), .nnz = nnz, .bytes = nnz * slot};
  }

  // As LocalBackend starts a model: the state of an intercept is made by a store of its own.
  Status StartIntercept(size_t model) {
    const TrainOptions& own = options_[model];
    if (!own.shape.intercept) return {};
    ASSIGN_OR_RETURN(const auto store, sparse::LocalStore::Create({.num_features = 1}, own.update));
    RETURN_IF_ERROR(store->LoadWeight(io::kInterceptKey, static_cast<float>(own.intercept)));
    store->ForEach([&](uint64_t key, std::span<const float> state) {
      lanes_->Load(model, key, state[1], state[2]);
    });
    return {};
  }

  std::unique_ptr<sparse::FtrlLanes> lanes_;
  const sparse::Kernels& kernels_;
  const std::vector<TrainOptions> options_;
  std::vector<char> frozen_;
  TrainingState start_;
  std::unique_ptr<sparse::LocalStore> store_;  // the last one of Store, until a step
  size_t stored_ = 0;                          // its model
  PodVector<float> margins_;                   // [models][rows], and residuals
};

bool CanShare(const TrainOptions& options) {
  return sparse::FtrlLanes::Suits(options.shape, options.update) && options.kernel == "auto" &&
         options.model_in.empty() && options.continue_from.empty();
}

}  // namespace

Result<std::unique_ptr<ModelSet>> ModelSet::Create(
    const std::vector<TrainOptions>& options,
    const std::function<void(const std::string&)>& on_note, bool shares) {
  CHECK(!options.empty());
  auto set = std::make_unique<ModelSet>(Private{});
  set->shares_ = shares && std::all_of(options.begin(), options.end(), CanShare);
  const size_t at_once = set->shares_ ? sparse::FtrlLanes::kMost : 1;
  for (size_t first = 0; first < options.size(); first += at_once) {
    const size_t count = std::min(at_once, options.size() - first);
    std::unique_ptr<ModelGroup> group;
    if (set->shares_) {
      ASSIGN_OR_RETURN(group, SharedModels::Create(std::span(options).subspan(first, count)));
    } else {
      const auto no_note = [](const std::string&) {};  // once is enough
      ASSIGN_OR_RETURN(auto backend,
                       LocalBackend::Create(options[first], first == 0 ? on_note : no_note));
      group = std::make_unique<SingleModel>(std::move(backend));
    }
    for (size_t m = 0; m < count; ++m) set->places_.push_back({set->groups_.size(), m});
    set->first_.push_back(first);
    set->groups_.push_back(std::move(group));
    if (set->groups_.back()->wants_compact_batches() != set->wants_compact_batches()) {
      return Invalid(
          "sgd: models with an l2 of 0 and with another one take batches of different forms: "
          "expected one of the two in a sweep");
    }
  }
  set->active_.assign(options.size(), 1);
  set->dropped_.assign(options.size(), 0);
  return set;
}

size_t ModelSet::active_count() const {
  return static_cast<size_t>(std::count(active_.begin(), active_.end(), 1));
}

void ModelSet::Drop(size_t model) {
  Freeze(model);
  dropped_[model] = 1;
  // The first group answers for all: it is never released.
  const size_t group = places_[model].group;
  const auto first = dropped_.begin() + static_cast<ptrdiff_t>(first_[group]);
  const auto size = static_cast<ptrdiff_t>(groups_[group]->size());
  if (group > 0 && std::count(first, first + size, 0) == 0) groups_[group].reset();
}

Status ModelSet::Learn(const CsrBatch& batch, const CsrBatch* next, std::span<double> losses) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g]) continue;
    const size_t count = groups_[g]->size();
    const auto active = std::span(active_).subspan(first_[g], count);
    if (std::count(active.begin(), active.end(), 0) == static_cast<ptrdiff_t>(count)) continue;
    RETURN_IF_ERROR(groups_[g]->Learn(batch, next, active, losses.subspan(first_[g], count)));
  }
  return {};
}

Status ModelSet::Score(const CsrBatch& batch, const ModelGroup::TakeMargins& take) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g]) continue;
    const auto dropped = std::span(dropped_).subspan(first_[g], groups_[g]->size());
    if (std::count(dropped.begin(), dropped.end(), 0) == 0) continue;
    RETURN_IF_ERROR(groups_[g]->Score(batch, [&](size_t model, std::span<const float> margins) {
      if (dropped[model] == 0) take(first_[g] + model, margins);
    }));
  }
  return {};
}

Result<sparse::LocalStore*> ModelSet::Store(size_t model) {
  const Place place = places_[model];
  CHECK(groups_[place.group] && dropped_[model] == 0);
  return groups_[place.group]->Store(place.model);
}

}  // namespace millrace::trainer
