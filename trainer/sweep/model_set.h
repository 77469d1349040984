// SPDX-License-Identifier: Apache-2.0
// Models that train on the same batches, in one process. Each one has the bits that it would have
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/batch/csr_batch.h"
#include "sparse/local_store.h"
#include "trainer/loop/training_state.h"
#include "trainer/sparse/train_options.h"

namespace millrace::trainer {

// Some of the models, which share their memory. Models are numbered from 0 in the group.
class ModelGroup {
 public:
  virtual ~ModelGroup() = default;
  virtual size_t size() const = 0;
  virtual bool wants_compact_batches() const = 0;
  virtual bool wants_next() const { return false; }
  // The start of all models of the group.
  virtual const TrainingState& start() const = 0;

  // Trains the models with active[m] and sets losses[m], the sum of the batch's losses before that.
  virtual Status Learn(const io::CsrBatch& batch, const io::CsrBatch* next,
                       std::span<const char> active, std::span<double> losses) = 0;
  // take(m, margins) for each model; the margins are valid during the call.
  using TakeMargins = std::function<void(size_t model, std::span<const float> margins)>;
  virtual Status Score(const io::CsrBatch& batch, const TakeMargins& take) = 0;
  // The model by itself; valid as long as the group, until the next call. A copy, if the group
  // shares slots.
  virtual Result<sparse::LocalStore*> Store(size_t model) = 0;
};

// Not thread-safe.
class ModelSet {
  struct Private {};  // only Create makes sets

 public:
  // The options differ in their update options alone. FTRL models of one dense-index table that
  // start from nothing share slots, eight by eight (sparse/ftrl_lanes.h); others have a store each.
  // `shares` false: all have.
  static Result<std::unique_ptr<ModelSet>> Create(
      const std::vector<TrainOptions>& options,
      const std::function<void(const std::string&)>& on_note, bool shares = true);
  explicit ModelSet(Private) {}

  size_t size() const { return places_.size(); }
  bool wants_compact_batches() const { return groups_.front()->wants_compact_batches(); }
  bool wants_next() const { return groups_.front()->wants_next(); }
  // Whether models share slots.
  bool shares() const { return shares_; }
  const TrainingState& start() const { return groups_.front()->start(); }

  bool active(size_t model) const { return active_[model] != 0; }
  size_t active_count() const;
  // The model does not change any more.
  void Freeze(size_t model) { active_[model] = 0; }
  // It is not needed any more, either. The memory is released when that of its whole group is.
  void Drop(size_t model);

  // As in ModelGroup. Score leaves out the models that were dropped.
  Status Learn(const io::CsrBatch& batch, const io::CsrBatch* next, std::span<double> losses);
  Status Score(const io::CsrBatch& batch, const ModelGroup::TakeMargins& take);
  Result<sparse::LocalStore*> Store(size_t model);

 private:
  struct Place {
    size_t group, model;
  };

  std::vector<std::unique_ptr<ModelGroup>> groups_;  // null: all models are dropped
  std::vector<size_t> first_;                        // model of each group
  std::vector<Place> places_;
  std::vector<char> active_, dropped_;
  bool shares_ = false;
};

}  // namespace millrace::trainer
