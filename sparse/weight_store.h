// All that a training loop knows of the model: weights out, gradients in.
#pragma once

#include <cstdint>
#include <span>

#include "io/base/status.h"

namespace millrace::sparse {

// Keys are sorted and unique in every call. Not thread-safe.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // The weights of `keys`; those never pushed to are 0.
  virtual io::Status Pull(std::span<const uint64_t> keys, std::span<float> weights) = 0;
  // One step: applies the update rule to each key with its gradient.
  virtual io::Status Push(std::span<const uint64_t> keys, std::span<const float> gradient) = 0;
};

}  // namespace millrace::sparse
