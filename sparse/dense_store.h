// SPDX-License-Identifier: Apache-2.0
// The interface of a training loop to dense parameters: gradients in, weights out.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "io/base/status.h"

namespace millrace::sparse {

struct DenseParam {
  std::string name;
  std::span<float> weights;  // the net's memory; outlives the store
};

// One step is a Push of every parameter, in any order, and then a Pull of every parameter. Not
// thread-safe.
class DenseStore {
 public:
  virtual ~DenseStore() = default;
  // Call it once, first. On return the parameters' memory holds the initial weights: those given,
  // or those of the servers if they have trained already.
  virtual Status Init(std::span<const DenseParam> params) = 0;
  // The gradient of a parameter in the current step, the mean over this worker's batch. It may
  // return before the gradient is applied; the gradient's memory may be reused on return.
  virtual Status Push(size_t param, std::span<const float> gradient) = 0;
  // On return the parameter's memory holds its weights after the step that was pushed last.
  virtual Status Pull(size_t param) = 0;
};

}  // namespace millrace::sparse
