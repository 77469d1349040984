// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/dnnl_ops.h"

#include <algorithm>

#include "convnets/engine/plain_ops.h"

namespace millrace::convnets {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using tag = dnnl::memory::format_tag;
using dims = dnnl::memory::dims;

constexpr auto kF32 = memory::data_type::f32;

memory::dim Dim(size_t size) { return static_cast<memory::dim>(size); }
memory::desc Any(const dims& d) { return {d, kF32, tag::any}; }

dims ImageDims(const DnnlPlan& plan, const Shape& shape) {
  return {plan.images, Dim(shape.channels), Dim(shape.height), Dim(shape.width)};
}

DnnlCall Reorder(const memory& from, const memory& to) {
  return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

// A call that converts `from` to `to` with layout `desc`; `to` is `from` if the layouts are equal.
DnnlCall ReorderTo(DnnlPlan& plan, const memory& from, const memory::desc& desc, memory& to) {
  if (from.get_desc() == desc) {
    to = from;
    return {};
  }
  to = plan.Make(desc);
  return Reorder(from, to);
}

class Conv final : public DnnlOp {
 public:
  Conv(DnnlPlan& plan, const Layer& layer, size_t param, bool relu, const memory& x, size_t which,
       bool first)
      : param_(param), weight_size_(layer.weight_size()), bias_size_(layer.out.channels) {
    const Shape &in = layer.in, &out = layer.out;
    const auto k = Dim(layer.window.kernel), g = Dim(layer.groups);
    const dims weight_dims = layer.groups == 1
                                 ? dims{Dim(out.channels), Dim(in.channels), k, k}
                                 : dims{g, Dim(out.channels) / g, Dim(in.channels) / g, k, k};
    const dims stride(2, Dim(layer.window.stride)), pad(2, Dim(layer.window.pad));
    const memory::desc x_any = Any(ImageDims(plan, in)), y_any = Any(ImageDims(plan, out));
    const memory::desc bias_desc({Dim(out.channels)}, kF32, tag::x);
    dnnl::primitive_attr attr;
    if (relu) {
      dnnl::post_ops after;
      after.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
      attr.set_post_ops(after);
    }
    const dnnl::convolution_forward::primitive_desc forward(
        {prop_kind::forward_training, algorithm::convolution_direct, x_any, Any(weight_dims),
         bias_desc, y_any, stride, pad, pad},
        attr, plan.engine);
    const memory weights({weight_dims, kF32, layer.groups == 1 ? tag::oihw : tag::goihw},
                         plan.engine, plan.params->weights(param).data());
    const memory bias(bias_desc, plan.engine, plan.params->weights(param + 1).data());
    memory own_x, forward_weights;
    reorder_x_ = ReorderTo(plan, x, forward.src_desc(), own_x);
    reorder_weights_ = ReorderTo(plan, weights, forward.weights_desc(), forward_weights);
    y = plan.Make(forward.dst_desc());
    forward_ = {dnnl::convolution_forward(forward),
                {{DNNL_ARG_SRC, own_x},
                 {DNNL_ARG_WEIGHTS, forward_weights},
                 {DNNL_ARG_BIAS, bias},
                 {DNNL_ARG_DST, y}}};
    dy = plan.MakeGradient(y.get_desc(), which);
    if (relu) MakeReluBackward(plan);
    MakeWeightsBackward(plan, forward, weights.get_desc(), bias_desc, own_x, stride, pad);
    if (!first) MakeDataBackward(plan, forward, weights, x.get_desc(), stride, pad, which);
  }

  void Forward(DnnlPlan& plan) override {
    reorder_weights_.Run(plan.stream);
    reorder_x_.Run(plan.stream);
    forward_.Run(plan.stream);
    plan.stream.wait();
  }

  Status Backward(DnnlPlan& plan, const GradientSink& sink) override {
    relu_.Run(plan.stream);
    reorder_data_weights_.Run(plan.stream);
    data_.Run(plan.stream);
    weights_.Run(plan.stream);
    reorder_gradient_.Run(plan.stream);
    plan.stream.wait();
    RETURN_IF_ERROR(sink(param_, plan.gradient.first(weight_size_)));
    return sink(param_ + 1, plan.bias_gradient.first(bias_size_));
  }

 private:
  void MakeReluBackward(DnnlPlan& plan) {
    const dnnl::eltwise_forward::primitive_desc hint(
        {prop_kind::forward_training, algorithm::eltwise_relu_use_dst_for_bwd, y.get_desc(), 0.0f},
        plan.engine);
    const dnnl::eltwise_backward::primitive_desc backward(
        {algorithm::eltwise_relu_use_dst_for_bwd, y.get_desc(), y.get_desc(), 0.0f}, plan.engine,
        hint);
    relu_ = {dnnl::eltwise_backward(backward),
             {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dy}}};
  }

  void MakeWeightsBackward(DnnlPlan& plan, const dnnl::convolution_forward::primitive_desc& hint,
                           const memory::desc& canonical, const memory::desc& bias_desc,
                           const memory& x, const dims& stride, const dims& pad) {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {algorithm::convolution_direct, x.get_desc(), Any(canonical.dims()), bias_desc,
         y.get_desc(), stride, pad, pad},
        plan.engine, hint);
    const memory gradient(canonical, plan.engine, plan.gradient.data());
    memory blocked = gradient;
    if (backward.diff_weights_desc() != canonical) {
      blocked = plan.Make(backward.diff_weights_desc());
      reorder_gradient_ = Reorder(blocked, gradient);
    }
    weights_ = {dnnl::convolution_backward_weights(backward),
                {{DNNL_ARG_SRC, x},
                 {DNNL_ARG_DIFF_DST, dy},
                 {DNNL_ARG_DIFF_WEIGHTS, blocked},
                 {DNNL_ARG_DIFF_BIAS, memory(bias_desc, plan.engine, plan.bias_gradient.data())}}};
  }

  void MakeDataBackward(DnnlPlan& plan, const dnnl::convolution_forward::primitive_desc& hint,
                        const memory& weights, const memory::desc& x_desc, const dims& stride,
                        const dims& pad, size_t which) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        {algorithm::convolution_direct, x_desc, Any(weights.get_desc().dims()), y.get_desc(),
         stride, pad, pad},
        plan.engine, hint);
    memory data_weights;
    reorder_data_weights_ = ReorderTo(plan, weights, backward.weights_desc(), data_weights);
    dx = plan.MakeGradient(x_desc, 1 - which);
    data_ = {dnnl::convolution_backward_data(backward),
             {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, data_weights}, {DNNL_ARG_DIFF_SRC, dx}}};
  }

  size_t param_, weight_size_, bias_size_;
  DnnlCall reorder_x_, reorder_weights_, forward_;
  DnnlCall relu_, reorder_data_weights_, data_, weights_, reorder_gradient_;
};

// A layer without parameters: one primitive per direction.
class Simple final : public DnnlOp {
 public:
  void Forward(DnnlPlan& plan) override {
    forward.Run(plan.stream);
    plan.stream.wait();
  }
  Status Backward(DnnlPlan& plan, const GradientSink&) override {
    backward.Run(plan.stream);
    plan.stream.wait();
    return {};
  }

  DnnlCall forward, backward;
};

// Fully connected, on plain rows: y[N][O] = x[N][I] w[O][I]^T, by oneDNN's matrix product.
class Fc final : public DnnlOp {
 public:
  Fc(DnnlPlan& plan, const Layer& layer, size_t param, bool relu, const memory& x, size_t which,
     bool first)
      : param_(param),
        N_(plan.images),
        I_(Dim(layer.in.size())),
        O_(Dim(layer.out.size())),
        relu_(relu) {
    reorder_x_ = ReorderTo(plan, x, PlainLayout(x.get_desc()), x_);
    y = plan.Make({{N_, O_, 1, 1}, kF32, tag::nchw});
    dy = plan.MakeGradient(y.get_desc(), which);
    if (first) return;
    dx = plan.MakeGradient(x.get_desc(), 1 - which);
    if (x.get_desc() == x_.get_desc()) {
      dx_ = dx;
    } else {
      dx_ = plan.Make(x_.get_desc());
      reorder_dx_ = Reorder(dx_, dx);
    }
  }

  void Forward(DnnlPlan& plan) override {
    reorder_x_.Run(plan.stream);
    plan.stream.wait();
    const std::span<const float> bias = plan.params->weights(param_ + 1);
    const std::span<float> out = Floats(y);
    dnnl::sgemm('N', 'T', N_, O_, I_, 1, Floats(x_).data(), I_, plan.params->weights(param_).data(),
                I_, 0, out.data(), O_);
    for (size_t n = 0; n < static_cast<size_t>(N_); ++n) {
      float* row = out.data() + n * bias.size();
      for (size_t o = 0; o < bias.size(); ++o) {
        const float sum = row[o] + bias[o];
        row[o] = relu_ && sum < 0 ? 0.0f : sum;
      }
    }
  }

  Status Backward(DnnlPlan& plan, const GradientSink& sink) override {
    const std::span<float> grads = Floats(dy);
    if (relu_) ReluBackward(Floats(y), grads, grads);
    const std::span<float> weights = plan.params->weights(param_);
    if (dx) {
      dnnl::sgemm('N', 'N', N_, I_, O_, 1, grads.data(), O_, weights.data(), I_, 0,
                  Floats(dx_).data(), I_);
      reorder_dx_.Run(plan.stream);
      plan.stream.wait();
    }
    dnnl::sgemm('T', 'N', O_, I_, N_, 1, grads.data(), O_, Floats(x_).data(), I_, 0,
                plan.gradient.data(), I_);
    const std::span<float> bias = plan.bias_gradient.first(static_cast<size_t>(O_));
    std::ranges::fill(bias, 0.0f);
    for (size_t at = 0; at < grads.size(); ++at) bias[at % bias.size()] += grads[at];
    RETURN_IF_ERROR(sink(param_, plan.gradient.first(weights.size())));
    return sink(param_ + 1, bias);
  }

 private:
  size_t param_;
  memory::dim N_, I_, O_;
  bool relu_;
  DnnlCall reorder_x_, reorder_dx_;
  memory x_, dx_;  // plain
};

// Forward and backward run in place.
class DropoutOp final : public DnnlOp {
 public:
  DropoutOp(DnnlPlan& plan, size_t l, const memory& x, size_t which)
      : layer_(l), rate_(plan.spec->layers[l].drop_rate) {
    y = plan.Make(x.get_desc());
    x_ = x;
    dy = plan.MakeGradient(x.get_desc(), which);
    dx = plan.MakeGradient(x.get_desc(), 1 - which);
  }

  void Forward(DnnlPlan& plan) override {
    const std::span<float> in = Floats(x_), out = Floats(y);
    if (!plan.training) {
      std::ranges::copy(in, out.begin());
      return;
    }
    Dropout(rate_, DropoutSeed(plan.seed, plan.step, layer_), 0, in, out);
  }
  Status Backward(DnnlPlan& plan, const GradientSink&) override {
    Dropout(rate_, DropoutSeed(plan.seed, plan.step, layer_), 0, Floats(dy), Floats(dx));
    return {};
  }

 private:
  size_t layer_;
  double rate_;
  memory x_;
};

}  // namespace

memory DnnlPlan::Make(const memory::desc& desc) {
  arrays.emplace_back(desc.get_size() / sizeof(float) + 1);
  return {desc, engine, arrays.back().data()};
}

memory DnnlPlan::MakeGradient(const memory::desc& desc, size_t which) {
  return {desc, engine, activation_gradients[which]};
}

memory::desc PlainLayout(const memory::desc& desc) { return {desc.dims(), kF32, tag::nchw}; }

std::span<float> Floats(const memory& m) {
  return {static_cast<float*>(m.get_data_handle()), m.get_desc().get_size() / sizeof(float)};
}

std::unique_ptr<DnnlOp> MakeDnnlConv(DnnlPlan& plan, size_t l, size_t param, bool relu,
                                     const memory& x, size_t which) {
  return std::make_unique<Conv>(plan, plan.spec->layers[l], param, relu, x, which, l == 0);
}

std::unique_ptr<DnnlOp> MakeDnnlPool(DnnlPlan& plan, size_t l, const memory& x, size_t which) {
  const Layer& layer = plan.spec->layers[l];
  const dims kernel(2, Dim(layer.window.kernel)), stride(2, Dim(layer.window.stride));
  const dims pad(2, Dim(layer.window.pad));
  const memory::desc y_any = Any(ImageDims(plan, layer.out));
  const dnnl::pooling_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm::pooling_max, x.get_desc(), y_any, stride, kernel,
       pad, pad},
      plan.engine);
  auto op = std::make_unique<Simple>();
  op->y = plan.Make(forward.dst_desc());
  const memory workspace = plan.Make(forward.workspace_desc());
  op->forward = {dnnl::pooling_forward(forward),
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, op->y}, {DNNL_ARG_WORKSPACE, workspace}}};
  op->dy = plan.MakeGradient(op->y.get_desc(), which);
  op->dx = plan.MakeGradient(x.get_desc(), 1 - which);
  const dnnl::pooling_backward::primitive_desc backward(
      {algorithm::pooling_max, x.get_desc(), op->y.get_desc(), stride, kernel, pad, pad},
      plan.engine, forward);
  op->backward = {
      dnnl::pooling_backward(backward),
      {{DNNL_ARG_DIFF_DST, op->dy}, {DNNL_ARG_DIFF_SRC, op->dx}, {DNNL_ARG_WORKSPACE, workspace}}};
  return op;
}

std::unique_ptr<DnnlOp> MakeDnnlLrn(DnnlPlan& plan, size_t l, const memory& x, size_t which) {
  const LrnNumbers& lrn = plan.spec->layers[l].lrn;
  const dnnl::lrn_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm::lrn_across_channels, x.get_desc(), Dim(lrn.size),
       lrn.alpha, lrn.beta, lrn.k},
      plan.engine);
  auto op = std::make_unique<Simple>();
  op->y = plan.Make(x.get_desc());
  const memory workspace = plan.Make(forward.workspace_desc());
  op->forward = {dnnl::lrn_forward(forward),
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, op->y}, {DNNL_ARG_WORKSPACE, workspace}}};
  op->dy = plan.MakeGradient(x.get_desc(), which);
  op->dx = plan.MakeGradient(x.get_desc(), 1 - which);
  const dnnl::lrn_backward::primitive_desc backward(
      {algorithm::lrn_across_channels, x.get_desc(), x.get_desc(), Dim(lrn.size), lrn.alpha,
       lrn.beta, lrn.k},
      plan.engine, forward);
  op->backward = {dnnl::lrn_backward(backward),
                  {{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DIFF_DST, op->dy},
                   {DNNL_ARG_DIFF_SRC, op->dx},
                   {DNNL_ARG_WORKSPACE, workspace}}};
  return op;
}

std::unique_ptr<DnnlOp> MakeDnnlRelu(DnnlPlan& plan, const memory& x, size_t which) {
  constexpr auto kRelu = algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc forward(
      {prop_kind::forward_training, kRelu, x.get_desc(), 0.0f}, plan.engine);
  auto op = std::make_unique<Simple>();
  op->y = plan.Make(x.get_desc());
  op->forward = {dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, op->y}}};
  op->dy = plan.MakeGradient(x.get_desc(), which);
  op->dx = plan.MakeGradient(x.get_desc(), 1 - which);
  const dnnl::eltwise_backward::primitive_desc backward({kRelu, x.get_desc(), x.get_desc(), 0.0f},
                                                        plan.engine, forward);
  op->backward = {
      dnnl::eltwise_backward(backward),
      {{DNNL_ARG_DST, op->y}, {DNNL_ARG_DIFF_DST, op->dy}, {DNNL_ARG_DIFF_SRC, op->dx}}};
  return op;
}

std::unique_ptr<DnnlOp> MakeDnnlFc(DnnlPlan& plan, size_t l, size_t param, bool relu,
                                   const memory& x, size_t which) {
  return std::make_unique<Fc>(plan, plan.spec->layers[l], param, relu, x, which, l == 0);
}

std::unique_ptr<DnnlOp> MakeDnnlDropout(DnnlPlan& plan, size_t l, const memory& x, size_t which) {
  return std::make_unique<DropoutOp>(plan, l, x, which);
}

}  // namespace millrace::convnets
