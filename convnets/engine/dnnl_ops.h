// SPDX-License-Identifier: Apache-2.0
// The layers of a large net as oneDNN primitives, which are created once and run many times. The
// DnnlPlan owns all memory; nothing is allocated while they run.
#pragma once

#include <cstdint>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "convnets/net/net.h"
#include "io/base/huge_array.h"

namespace millrace::convnets {

// A primitive and its arguments.
struct DnnlCall {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> args;

  void Run(dnnl::stream& stream) const {
    if (primitive) primitive.execute(stream, args);
  }
};

// State shared by the ops of a net.
struct DnnlPlan {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::memory::dim images = 0;
  const NetSpec* spec = nullptr;
  const Params* params = nullptr;
  uint64_t seed = 0;
  std::vector<HugeArray<float>> arrays;
  std::vector<float*> activation_gradients;  // two buffers, used alternately
  std::span<float> gradient;                 // of one parameter, in its canonical layout
  std::span<float> bias_gradient;            // of one bias
  uint64_t step = 0;
  bool training = false;  // dropout is on

  dnnl::memory Make(const dnnl::memory::desc& desc);  // zeros, on large pages
  // A memory of `desc` in activation_gradients[which].
  dnnl::memory MakeGradient(const dnnl::memory::desc& desc, size_t which);
};

// One layer (a ReLU is part of the convolution or the fully connected layer before it).
class DnnlOp {
 public:
  virtual ~DnnlOp() = default;
  virtual void Forward(DnnlPlan& plan) = 0;
  // From the gradient of the output to that of the input, unless the input is the images.
  virtual Status Backward(DnnlPlan& plan, const GradientSink& sink) = 0;

  dnnl::memory y;       // the output
  dnnl::memory dy, dx;  // gradients; dx is empty for the first layer
};

// `l` is the layer's number, `x` its input, `which` the gradient buffer for dy (dx uses the other).
// `relu`: one follows and is part of it. Throw dnnl::error.
std::unique_ptr<DnnlOp> MakeDnnlConv(DnnlPlan& plan, size_t l, size_t param, bool relu,
                                     const dnnl::memory& x, size_t which);
std::unique_ptr<DnnlOp> MakeDnnlPool(DnnlPlan& plan, size_t l, const dnnl::memory& x, size_t which);
std::unique_ptr<DnnlOp> MakeDnnlLrn(DnnlPlan& plan, size_t l, const dnnl::memory& x, size_t which);
std::unique_ptr<DnnlOp> MakeDnnlRelu(DnnlPlan& plan, const dnnl::memory& x, size_t which);
// Fully connected with its ReLU, and dropout: on plain layouts. `x` may be blocked.
std::unique_ptr<DnnlOp> MakeDnnlFc(DnnlPlan& plan, size_t l, size_t param, bool relu,
                                   const dnnl::memory& x, size_t which);
std::unique_ptr<DnnlOp> MakeDnnlDropout(DnnlPlan& plan, size_t l, const dnnl::memory& x,
                                        size_t which);

// The plain layout of the same dimensions.
dnnl::memory::desc PlainLayout(const dnnl::memory::desc& desc);
std::span<float> Floats(const dnnl::memory& memory);

}  // namespace millrace::convnets
