// Dense parameters that are trained in this process: each Push updates the net's memory in place.
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
  // Calls `work(begin, end)` for parts that cover [0, size), perhaps on several threads; returns
  // when all are done. An update does not depend on how it is cut.
  using Spread = std::function<void(size_t size, const std::function<void(size_t, size_t)>& work)>;

  // `options` has been validated. Without `spread` the caller's thread does it all.
  explicit LocalDenseStore(const DenseOptions& options, Spread spread = {});

  Status Init(std::span<const DenseParam> params) override;
  Status Push(size_t param, std::span<const float> gradient) override;
  Status Pull(size_t param) override;

  const DenseOptions& options() const { return options_; }
  size_t size() const { return slots_.size(); }
  std::span<const float> weights(size_t param) const { return slots_[param].weights; }

  // For checkpoints: the rule's own numbers, options().state_planes() arrays as long as the
  // parameter, and the updates done so far. A store that gets weights, state and steps of another
  // goes on as that one would, bit for bit.
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
  Spread spread_;
  std::vector<Slot> slots_;
};

}  // namespace millrace::sparse
