// All that a training loop knows of dense parameters: gradients in, weights out.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "io/base/status.h"

namespace millrace::sparse {

struct DenseParam {
  std::string name;
  std::span<float> weights;  // the net's own memory; outlives the store
};

// One step is a Push of every parameter, in any order, and then a Pull of every parameter. Not
// thread-safe.
class DenseStore {
 public:
  virtual ~DenseStore() = default;
  // To be called once, first. On return the parameters' memory holds the weights to begin with:
  // those given, or, where servers have trained already, theirs.
  virtual Status Init(std::span<const DenseParam> params) = 0;
  // The gradient of a parameter, the mean over this worker's batch, for the present step. It may
  // return before the gradient is applied; the gradient's memory may be reused then.
  virtual Status Push(size_t param, std::span<const float> gradient) = 0;
  // On return the parameter's memory holds its weights after the update of the step pushed last.
  virtual Status Pull(size_t param) = 0;
};

}  // namespace millrace::sparse
