// SPDX-License-Identifier: Apache-2.0
// The reference engine: the plain ops one after the other, one thread.
#pragma once

#include <vector>

#include "convnets/net/net.h"

namespace millrace::convnets {

class PlainNet final : public Net {
 public:
  PlainNet(const NetSpec& spec, const Params& params, const EngineOptions& options);

  using Net::Evaluate;
  Outcome Evaluate(const Batch& batch, std::span<float> scores) override;
  Result<Outcome> ComputeGradients(const Batch& batch, uint64_t step,
                                   const GradientSink& sink) override;
  void ParallelFor(size_t size, const std::function<void(size_t, size_t)>& work) override {
    work(0, size);
  }
  std::string description() const override { return "plain reference, 1 thread"; }

 private:
  // The scores of the batch; `step` absent: dropout is off.
  std::span<float> Forward(const Batch& batch, const uint64_t* step);
  void ForwardLayer(size_t l, size_t images, std::span<const float> x, const uint64_t* step);
  Status BackwardLayer(size_t l, size_t images, std::span<const float> x, uint64_t step,
                       std::span<const float> dy, std::span<float> dx, const GradientSink& sink);

  const NetSpec spec_;
  const Params& params_;
  const EngineOptions options_;
  std::vector<std::vector<float>> outputs_;     // of each layer
  std::vector<float> activation_gradients_[2];  // of a layer's output and input, alternately
  std::vector<float> dweights_, dbias_;
  std::vector<size_t> first_param_;  // of each layer
};

}  // namespace millrace::convnets
