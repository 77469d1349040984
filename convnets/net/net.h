// SPDX-License-Identifier: Apache-2.0
// A net that is ready to run. All memory is allocated at creation; steps allocate none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "convnets/net/net_spec.h"
#include "convnets/net/params.h"
#include "io/base/status.h"

namespace millrace::convnets {

struct Batch {
  std::span<const float> pixels;    // [images][channels][height][width]
  std::span<const int32_t> labels;  // [images], each in [0, classes); see Net::Evaluate

  size_t images() const { return labels.size(); }
};

struct Outcome {
  double loss = 0;       // sum over the images
  uint64_t correct = 0;  // images whose label has the highest score
};

// Receives the gradient of parameter `param`, the mean over the batch. Its memory is reused after
// the call.
using GradientSink = std::function<Status(size_t param, std::span<const float> gradient)>;

struct EngineOptions {
  size_t max_batch = 64;
  size_t threads = 1;
  uint64_t seed = 1;  // of the dropout masks
  // The sink gets a small net's gradients one by one, too, instead of all at the end. Any thread of
  // the engine may then call the sink, one at a time, and the sink must not call ParallelFor.
  bool early_gradients = false;
};

// Results depend only on the parameters, the batch, the options and `step`: equal inputs give the
// same bits. Not thread-safe.
class Net {
 public:
  virtual ~Net() = default;

  // Forward only, dropout off. A batch has at most max_batch images, here and in ComputeGradients.
  // An image with a label below 0 counts in neither number. `scores`, unless it is empty, gets the
  // outputs of the last layer, [images][classes].
  virtual Outcome Evaluate(const Batch& batch, std::span<float> scores) = 0;
  Outcome Evaluate(const Batch& batch) { return Evaluate(batch, {}); }
  // Forward and backward. The sink gets each gradient once, the last layers first, and if the
  // engine can, before earlier layers are computed. When the sink gets a gradient, the step does
  // not read that parameter any more, so that the sink may update it. An error of the sink ends the
  // step.
  virtual Result<Outcome> ComputeGradients(const Batch& batch, uint64_t step,
                                           const GradientSink& sink) = 0;

  // Calls work(begin, end) for a partition of [0, size) on the engine's threads; returns when all
  // have returned. The sink may call it, except with early_gradients.
  virtual void ParallelFor(size_t size, const std::function<void(size_t, size_t)>& work) = 0;

  virtual std::string description() const = 0;  // "own kernels, avx512, 2 threads"
};

// "auto": the fastest for this net. "lanes": lane_net.h, for small nets. "onednn": oneDNN, any net.
// "plain": the slow reference. The net reads its weights from `params`, which must outlive it.
Result<std::unique_ptr<Net>> MakeEngine(const std::string& engine, const NetSpec& spec,
                                        const Params& params, const EngineOptions& options);

}  // namespace millrace::convnets
