// A net that is ready to run: all of its memory is there, and no step allocates any.
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
  std::span<const int32_t> labels;  // [images], each in [0, classes)

  size_t images() const { return labels.size(); }
};

struct Outcome {
  double loss = 0;       // sum over the images
  uint64_t correct = 0;  // images whose label has the highest score
};

// Takes the gradient of parameter `param`, the mean over the batch. Its memory is reused when this
// returns.
using GradientSink = std::function<Status(size_t param, std::span<const float> gradient)>;

struct EngineOptions {
  size_t max_batch = 64;
  size_t threads = 1;
  uint64_t seed = 1;  // of the dropout masks
  // A small net's gradients leave one by one, too, rather than all at the end: the sink is then
  // called from any of the engine's threads, by one at a time, and may not call Spread.
  bool early_gradients = false;
};

// Results depend on the parameters, the batch, the options and `step`, and on nothing else: equal
// ones give the same bits. Not thread-safe.
class Net {
 public:
  virtual ~Net() = default;

  // Forward alone, dropout off. At most max_batch images; so for Learn.
  virtual Outcome Test(const Batch& batch) = 0;
  // Forward and backward. The sink gets every gradient once, those of the last layers first and
  // while earlier layers are still to be computed where the engine can do that. A parameter is not
  // read any more in this step when its gradient comes, so that the sink may update it at once. An
  // error of the sink ends the step.
  virtual Result<Outcome> Learn(const Batch& batch, uint64_t step, const GradientSink& sink) = 0;

  // Cuts [0, size) into parts and calls work(begin, end) for each on the engine's own threads;
  // returns when all are done. May be called from the sink, but not with early_gradients.
  virtual void Spread(size_t size, const std::function<void(size_t, size_t)>& work) = 0;

  virtual std::string description() const = 0;  // "own kernels, avx512, 2 threads"
};

// "auto": the fastest for this net. "lanes": own kernels, for small nets. "onednn": oneDNN on
// blocked layouts, any net. "plain": the reference, slow. The net reads its weights from `params`,
// which must outlive it.
Result<std::unique_ptr<Net>> MakeEngine(const std::string& engine, const NetSpec& spec,
                                        const Params& params, const EngineOptions& options);

}  // namespace millrace::convnets
