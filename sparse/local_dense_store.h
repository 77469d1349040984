// SPDX-License-Identifier: Apache-2.0
// Dense parameters that this process trains: each Push updates the net's memory in place.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "io/base/huge_array.h"
#include "sparse/dense_options.h"
#include "sparse/dense_store.h"

namespace millrace::sparse {

class LocalDenseStore final : public DenseStore {
 public:
  // Calls `work(begin, end)` for a partition of [0, size), perhaps on several threads, and returns
  // when all calls have returned. Updates do not depend on the partition.
  using ParallelFor =
      std::function<void(size_t size, const std::function<void(size_t, size_t)>& work)>;

  // `options` must be valid. Without `parallel_for` the caller's thread does all work.
  explicit LocalDenseStore(const DenseOptions& options, ParallelFor parallel_for = {});

  Status Init(std::span<const DenseParam> params) override;
  Status Push(size_t param, std::span<const float> gradient) override;
  Status Pull(size_t param) override;

  const DenseOptions& options() const { return options_; }
  size_t size() const { return slots_.size(); }
  std::span<const float> weights(size_t param) const { return slots_[param].weights; }

  // For checkpoints: the optimizer state (options().state_planes() arrays as long as the parameter)
  // and the number of updates. A store with the weights, state and steps of another one continues
  // bit for bit like that one.
  std::span<float> state(size_t param) { return slots_[param].state.span(); }
  std::span<const float> state(size_t param) const { return slots_[param].state.span(); }
  uint64_t steps() const { return slots_.empty() ? 0 : slots_[0].steps; }
  void set_steps(uint64_t steps);

 private:
  struct Slot {
    std::span<float> weights;
    HugeArray<float> state;
    uint64_t steps = 0;
  };

  Status CheckParam(size_t param) const;

  DenseOptions options_;
  ParallelFor parallel_for_;
  std::vector<Slot> slots_;
};

}  // namespace millrace::sparse
