// All that a training loop knows of the model: weights out, gradients in.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/status.h"

namespace millrace::sparse {

// What a push is made of, for stores that put several workers' pushes together.
struct PushInfo {
  uint32_t rows = 0;
  double weight = 0;  // summed over the rows
  double loss = 0;    // summed over the rows, before the step
};

// Keys are sorted and unique in every call. Not thread-safe.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // The weights of `keys`; those never pushed to are 0.
  virtual Status Pull(std::span<const uint64_t> keys, std::span<float> weights) = 0;
  // One step: applies the update rule to each key with its gradient.
  virtual Status Push(std::span<const uint64_t> keys, std::span<const float> gradient) = 0;

  // The keys of the batch after the one that is pulled next or was pulled last, and those of the
  // batch after that one, if they are known (empty: not): a store that is far away asks for them in
  // time. They are known again by their place in memory, so they stay where they are until they are
  // pulled, and are not in the place of the batch before them.
  virtual void Announce(std::span<const uint64_t> /*next*/, std::span<const uint64_t> /*after*/) {}
  // How many batches it helps to announce: 0, 1 (the next one) or 2.
  virtual int announcements() const { return 0; }
  // Of the next Push.
  virtual void Describe(const PushInfo& /*info*/) {}
};

}  // namespace millrace::sparse
