// SPDX-License-Identifier: Apache-2.0
// The engine for small nets: kernels with one image per SIMD lane (lane_kernels.h), on blocks of
// images that are divided among threads.
//
// A block (16 images with AVX-512, 8 with AVX2) passes through the whole net forward and backward
// before the next one starts, so that its activations stay in the core's cache. Threads synchronize
// once per step, to sum their gradients in a fixed order. With early_gradients they do not
// synchronize: the last thread to finish a layer sums its gradient and passes it to the sink, while
// the other threads continue with earlier layers.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "convnets/engine/lane_kernels.h"
#include "convnets/engine/thread_team.h"
#include "convnets/net/net.h"
#include "io/base/huge_array.h"

namespace millrace::convnets {

class LaneNet final : public Net {
  struct Private {};  // only Create makes nets

 public:
  // Takes nets of 5x5 convolutions (stride 1, no groups, padding in the first layer only), each
  // followed by an optional ReLU and a max pooling whose windows do not overlap, and then fully
  // connected layers with optional ReLUs. Any other net is an error that states the reason.
  static Result<std::unique_ptr<LaneNet>> Create(const NetSpec& spec, const Params& params,
                                                 const EngineOptions& options,
                                                 CpuLevel level = DetectCpuLevel());
  LaneNet(Private, const NetSpec& spec, const Params& params, const EngineOptions& options,
          const LaneKernels& kernels);

  using Net::Evaluate;
  Outcome Evaluate(const Batch& batch, std::span<float> scores) override;
  Result<Outcome> ComputeGradients(const Batch& batch, uint64_t step,
                                   const GradientSink& sink) override;
  void ParallelFor(size_t size, const std::function<void(size_t, size_t)>& work) override {
    team_.ParallelFor(size, work);
  }
  std::string description() const override;

 private:
  // A convolution with its ReLU and pooling, or a fully connected layer with its ReLU. Offsets are
  // of floats in a thread's memory.
  struct Stage {
    bool is_conv = false;
    bool relu = false;
    size_t param = 0;
    LaneConv conv = {};
    LanePool pool = {};
    LaneFc fc = {};
    size_t pitch = 0;          // fc: of the rows of its input and of dw
    size_t wide = 0;           // conv: its output before pooling, later the gradient of it
    size_t y = 0, dy = 0;      // the stage's output and its gradient
    size_t dw = 0, dbias = 0;  // sums over the thread's images
    size_t gradient = 0, bias_gradient = 0;  // in gradient_
    std::string forward_span, weights_span, data_span;
  };
  struct Worker {
    HugeArray<float> memory;
    HugeArray<int32_t> labels;  // of the block, -1 where there is no image
    LaneLoss total = {};
    bool busy = false;  // has images in this step
  };

  Status AddStages();
  size_t AddConv(const std::vector<Layer>& layers, size_t l);
  size_t AddFc(const std::vector<Layer>& layers, size_t l);
  void PlanMemory();
  void RunBlocks(size_t thread, const Batch& batch, bool backward, std::span<float> scores = {});
  void LoadBlock(Worker& worker, const Batch& batch, size_t first, size_t images);
  void ForwardBlock(Worker& worker);
  void BackwardBlock(Worker& worker, const float* rows, bool first, bool last);
  void BackwardConv(const Stage& stage, Worker& worker, const float* x, float* dx, bool first);
  void BackwardFc(const Stage& stage, Worker& worker, const float* x, const float* rows, float* dx,
                  bool first);
  void SumGradients(const Stage& stage, size_t part, size_t parts);
  Result<Outcome> ComputeGradientsEarly(const Batch& batch, const GradientSink& sink);
  Status PassToSink(const Stage& stage, const GradientSink& sink);
  void StageDone(size_t stage);
  Outcome Total() const;

  const NetSpec spec_;
  const Params& params_;
  const EngineOptions options_;
  const LaneKernels& kernels_;
  std::vector<Stage> stages_;
  size_t pad_ = 0;  // of the input
  size_t input_ = 0, rows_ = 0, memory_size_ = 0;
  size_t input_pitch_ = 0;
  std::vector<Worker> workers_;
  std::vector<float> gradient_;  // of all parameters, concatenated
  // With early_gradients, for the current step:
  const GradientSink* early_sink_ = nullptr;
  std::vector<std::atomic<size_t>> threads_left_;  // by stage: threads that have not finished it
  std::mutex sink_mu_;
  Status sink_status_;  // guarded by sink_mu_
  ThreadTeam team_;
};

}  // namespace millrace::convnets
