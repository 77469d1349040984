// SPDX-License-Identifier: Apache-2.0
// The parameters of a net in one block of memory, and their initialization.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convnets/net/net_spec.h"
#include "io/base/huge_array.h"
#include "io/base/status.h"
#include "sparse/dense_store.h"

namespace millrace::convnets {

enum class Init {
  kHe,      // N(0, 2 / fan_in) before a ReLU, N(0, 1 / fan_in) elsewhere; biases 0
  kXavier,  // uniform, variance 2 / (fan_in + fan_out); biases 0
  kNormal,  // N(0, 1), also for biases: deep nets hardly train with it
};
// Accepts "he", "xavier", "normal".
Result<Init> InitFromName(std::string_view name);

// Weights and biases in the order of the layers: the weights of the i-th layer with parameters are
// parameter 2 i, its bias is 2 i + 1. Layer describes the layouts.
class Params {
 public:
  // All zero. Throws std::bad_alloc where std::vector would.
  explicit Params(const NetSpec& spec);

  // The same numbers for the same seed on every machine.
  void Initialize(Init init, uint64_t seed);

  std::span<const sparse::DenseParam> all() const { return params_; }
  std::span<float> weights(size_t i) const { return params_[i].weights; }
  size_t size() const { return params_.size(); }

 private:
  struct Origin {
    size_t fan_in, fan_out;
    bool bias, before_relu;
  };

  HugeArray<float> memory_;
  std::vector<sparse::DenseParam> params_;
  std::vector<Origin> origins_;
};

}  // namespace millrace::convnets
