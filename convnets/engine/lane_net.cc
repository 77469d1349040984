// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/lane_net.h"

#include <algorithm>

#include "profiler/trace.h"

namespace millrace::convnets {
namespace {

size_t RoundUp(size_t size, size_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Why the layers from `l` on cannot be a convolution stage; empty if they can.
std::string ConvProblem(const std::vector<Layer>& layers, size_t l) {
  const Layer& conv = layers[l];
  if (conv.window.kernel != kLaneKernel || conv.window.stride != 1) {
    return "expected kernel 5 and stride 1";
  }
  if (conv.groups != 1) return "expected one group";
  if (conv.window.pad != 0 && l != 0) return "expected padding in the first layer only";
  size_t next = l + 1;
  if (next < layers.size() && layers[next].kind == LayerKind::kRelu) ++next;
  if (next >= layers.size() || layers[next].kind != LayerKind::kMaxPool) {
    return "expected max pooling after it";
  }
  const Window& pool = layers[next].window;
  if (pool.kernel != pool.stride || pool.pad != 0) return "expected pooling without overlap";
  return "";
}

}  // namespace

Result<std::unique_ptr<LaneNet>> LaneNet::Create(const NetSpec& spec, const Params& params,
                                                 const EngineOptions& options, CpuLevel level) {
  auto net = std::make_unique<LaneNet>(Private{}, spec, params, options, LaneKernelsFor(level));
  RETURN_IF_ERROR(net->AddStages());
  net->PlanMemory();
  return net;
}

LaneNet::LaneNet(Private, const NetSpec& spec, const Params& params, const EngineOptions& options,
                 const LaneKernels& kernels)
    : spec_(spec), params_(params), options_(options), kernels_(kernels), team_(options.threads) {}

Status LaneNet::AddStages() {
  const std::vector<Layer>& layers = spec_.layers;
  for (size_t l = 0; l < layers.size();) {
    const Layer& layer = layers[l];
    std::string problem;
    if (layer.kind == LayerKind::kConv) {
      problem = ConvProblem(layers, l);
    } else if (layer.kind != LayerKind::kFullyConnected) {
      problem = "expected a convolution or a fully connected layer";
    }
    if (!problem.empty()) {
      return Invalid("engine lanes cannot run layer " + layer.name + " of " + spec_.name + ": " +
                     problem);
    }
    l = layer.kind == LayerKind::kConv ? AddConv(layers, l) : AddFc(layers, l);
  }
  return {};
}

// Returns the layer after the stage.
size_t LaneNet::AddConv(const std::vector<Layer>& layers, size_t l) {
  const Layer& layer = layers[l];
  Stage stage;
  stage.is_conv = true;
  stage.param = 2 * stages_.size();
  const size_t pad = layer.window.pad;
  if (stages_.empty()) pad_ = pad;
  stage.conv = {layer.in.channels,        layer.out.channels, layer.in.height + 2 * pad,
                layer.in.width + 2 * pad, layer.out.height,   layer.out.width};
  stage.forward_span = layer.name + " forward";
  stage.weights_span = layer.name + " backward weights";
  stage.data_span = layer.name + " backward data";
  ++l;
  stage.relu = layers[l].kind == LayerKind::kRelu;
  if (stage.relu) ++l;
  stage.pool = {layers[l].in.channels, layers[l].in.height, layers[l].in.width,
                layers[l].window.kernel};
  stages_.push_back(stage);
  return l + 1;
}

size_t LaneNet::AddFc(const std::vector<Layer>& layers, size_t l) {
  const Layer& layer = layers[l];
  Stage stage;
  stage.param = 2 * stages_.size();
  stage.fc = {layer.in.size(), layer.out.size()};
  stage.pitch = RoundUp(layer.in.size(), kernels_.lanes);
  stage.forward_span = layer.name + " forward";
  stage.weights_span = layer.name + " backward weights";
  stage.data_span = layer.name + " backward data";
  ++l;
  stage.relu = l < layers.size() && layers[l].kind == LayerKind::kRelu;
  stages_.push_back(stage);
  return stage.relu ? l + 1 : l;
}

void LaneNet::PlanMemory() {
  const size_t lanes = kernels_.lanes;
  size_t at = 0, widest_rows = 0, gradients = 0;
  const auto take = [&](size_t vectors) {
    const size_t begin = at;
    at += vectors * lanes;
    return begin;
  };
  const Shape& in = spec_.input;
  input_ = take(in.channels * (in.height + 2 * pad_) * (in.width + 2 * pad_));
  input_pitch_ = RoundUp(in.size(), lanes);
  for (Stage& s : stages_) {
    if (s.is_conv) {
      const LaneConv& c = s.conv;
      const size_t pooled = c.Co * (c.Ho / s.pool.K) * (c.Wo / s.pool.K);
      s.wide = take(c.Co * c.Ho * c.Wo);
      s.y = take(pooled);
      s.dy = take(pooled);
      s.dw = take(c.Co * c.Ci * kLaneKernel * kLaneKernel);
      s.dbias = take(c.Co);
    } else {
      s.y = take(s.fc.O);
      s.dy = take(s.fc.O);
      s.dw = take(s.fc.O * s.pitch / lanes);
      s.dbias = take(s.fc.O);
      widest_rows = std::max(widest_rows, s.pitch);
    }
    s.gradient = gradients;
    s.bias_gradient = s.gradient + params_.weights(s.param).size();
    gradients = s.bias_gradient + params_.weights(s.param + 1).size();
  }
  rows_ = take(std::max(widest_rows, input_pitch_));
  memory_size_ = at;
  for (size_t t = 0; t < team_.size(); ++t) {
    workers_.push_back({HugeArray<float>(memory_size_), HugeArray<int32_t>(lanes), {}});
  }
  gradient_.resize(gradients);
  threads_left_ = std::vector<std::atomic<size_t>>(stages_.size());
}

void LaneNet::LoadBlock(Worker& worker, const Batch& batch, size_t first, size_t images) {
  TRACE_SCOPE("pack images", profiler::Cat::kCompute, {.rows = static_cast<int64_t>(images)});
  const Shape& in = spec_.input;
  kernels_.pack(batch.pixels.data() + first * in.size(), images, in.channels, in.height, in.width,
                pad_, worker.memory.data() + input_);
  for (size_t n = 0; n < kernels_.lanes; ++n) {
    worker.labels[n] = n < images ? batch.labels[first + n] : -1;
  }
}

void LaneNet::ForwardBlock(Worker& worker) {
  float* const m = worker.memory.data();
  const float* x = m + input_;
  for (const Stage& s : stages_) {
    TRACE_SCOPE(s.forward_span.c_str(), profiler::Cat::kCompute,
                {.rows = static_cast<int64_t>(kernels_.lanes)});
    const float* w = params_.weights(s.param).data();
    const float* bias = params_.weights(s.param + 1).data();
    if (s.is_conv) {
      kernels_.conv_forward(s.conv, x, w, bias, s.relu, m + s.wide);
      kernels_.pool_forward(s.pool, m + s.wide, m + s.y);
    } else {
      kernels_.fc_forward(s.fc, x, w, bias, s.relu, m + s.y);
    }
    x = m + s.y;
  }
}

void LaneNet::BackwardConv(const Stage& s, Worker& worker, const float* x, float* dx, bool first) {
  float* const m = worker.memory.data();
  {
    TRACE_SCOPE(s.weights_span.c_str(), profiler::Cat::kCompute,
                {.rows = static_cast<int64_t>(kernels_.lanes)});
    kernels_.pool_backward(s.pool, m + s.y, m + s.dy, s.relu, m + s.wide);
    if (first) {
      std::fill_n(m + s.dw, params_.weights(s.param).size() * kernels_.lanes, 0.0f);
      std::fill_n(m + s.dbias, s.conv.Co * kernels_.lanes, 0.0f);
    }
    kernels_.conv_backward_weights(s.conv, x, m + s.wide, m + s.dw, m + s.dbias);
  }
  if (!dx) return;
  TRACE_SCOPE(s.data_span.c_str(), profiler::Cat::kCompute,
              {.rows = static_cast<int64_t>(kernels_.lanes)});
  kernels_.conv_backward_data(s.conv, params_.weights(s.param).data(), m + s.wide, dx);
}

// `rows`: the stage's input as rows, or null.
void LaneNet::BackwardFc(const Stage& s, Worker& worker, const float* x, const float* rows,
                         float* dx, bool first) {
  float* const m = worker.memory.data();
  {
    TRACE_SCOPE(s.weights_span.c_str(), profiler::Cat::kCompute,
                {.rows = static_cast<int64_t>(kernels_.lanes)});
    if (s.relu) kernels_.relu_backward(m + s.y, s.fc.O * kernels_.lanes, m + s.dy);
    const bool aligned = reinterpret_cast<uintptr_t>(rows) % (kernels_.lanes * sizeof(float)) == 0;
    if (!rows || !aligned || s.pitch != s.fc.I) {
      kernels_.unpack(x, s.fc.I, s.pitch, m + rows_);
      rows = m + rows_;
    }
    kernels_.fc_backward_weights(s.fc, rows, s.pitch, m + s.dy, first, m + s.dw, m + s.dbias);
  }
  if (!dx) return;
  TRACE_SCOPE(s.data_span.c_str(), profiler::Cat::kCompute,
              {.rows = static_cast<int64_t>(kernels_.lanes)});
  kernels_.fc_backward_data(s.fc, params_.weights(s.param).data(), m + s.dy, dx);
}

// `first`, `last`: whether it is the thread's first or last block.
void LaneNet::BackwardBlock(Worker& worker, const float* rows, bool first, bool last) {
  float* const m = worker.memory.data();
  for (size_t i = stages_.size(); i-- > 0;) {
    const Stage& s = stages_[i];
    const float* x = i == 0 ? m + input_ : m + stages_[i - 1].y;
    float* dx = i == 0 ? nullptr : m + stages_[i - 1].dy;
    if (s.is_conv) {
      BackwardConv(s, worker, x, dx, first);
    } else {
      BackwardFc(s, worker, x, i == 0 ? rows : nullptr, dx, first);
    }
    if (last && early_sink_) StageDone(i);
  }
}

void LaneNet::RunBlocks(size_t thread, const Batch& batch, bool backward, std::span<float> scores) {
  Worker& worker = workers_[thread];
  const size_t lanes = kernels_.lanes, images = batch.images();
  const size_t blocks = (images + lanes - 1) / lanes;
  // The first threads get the remaining blocks, so that thread 0 always has one.
  const size_t threads = team_.size();
  const size_t begin = (blocks * thread + threads - 1) / threads;
  const size_t end = (blocks * (thread + 1) + threads - 1) / threads;
  worker.total = {};
  worker.busy = begin < end;
  const float factor = 1.0f / static_cast<float>(images);
  const Stage& last = stages_.back();
  float* const m = worker.memory.data();
  for (size_t block = begin; block < end; ++block) {
    const size_t count = std::min(lanes, images - block * lanes);
    LoadBlock(worker, batch, block * lanes, count);
    ForwardBlock(worker);
    const LaneLoss loss = kernels_.softmax(m + last.y, last.fc.O, worker.labels.data(), factor,
                                           backward ? m + last.dy : nullptr);
    for (size_t i = 0; !scores.empty() && i < count * last.fc.O; ++i) {
      const size_t n = i / last.fc.O, c = i % last.fc.O;
      scores[block * lanes * last.fc.O + i] = m[last.y + c * lanes + n];
    }
    worker.total.loss += loss.loss;
    worker.total.correct += loss.correct;
    const float* rows = batch.pixels.data() + block * lanes * spec_.input.size();
    if (backward) {
      BackwardBlock(worker, count == lanes ? rows : nullptr, block == begin, block + 1 == end);
    }
  }
  if (worker.busy || !early_sink_) return;
  for (size_t i = stages_.size(); i-- > 0;) StageDone(i);
}

// Sums part `part` of `parts` of a stage's gradients over the threads, in the order of threads.
void LaneNet::SumGradients(const Stage& s, size_t part, size_t parts) {
  const size_t lanes = kernels_.lanes, outputs = s.is_conv ? s.conv.Co : s.fc.O;
  const size_t begin = outputs * part / parts, end = outputs * (part + 1) / parts;
  const size_t inputs = params_.weights(s.param).size() / outputs;
  float* const first = workers_[0].memory.data();
  const size_t row = s.is_conv ? inputs * lanes : s.pitch;  // of dw
  for (size_t t = 1; t < team_.size(); ++t) {
    if (!workers_[t].busy) continue;
    const float* const other = workers_[t].memory.data();
    kernels_.add(other + s.dw + begin * row, (end - begin) * row, first + s.dw + begin * row);
    kernels_.add(other + s.dbias + begin * lanes, (end - begin) * lanes,
                 first + s.dbias + begin * lanes);
  }
  float* const weights = gradient_.data() + s.gradient + begin * inputs;
  if (s.is_conv) {
    kernels_.sum_lanes(first + s.dw + begin * row, (end - begin) * inputs, weights);
  } else {
    for (size_t o = begin; o < end; ++o) {
      std::copy_n(first + s.dw + o * row, inputs, weights + (o - begin) * inputs);
    }
  }
  kernels_.sum_lanes(first + s.dbias + begin * lanes, end - begin,
                     gradient_.data() + s.bias_gradient + begin);
}

Outcome LaneNet::Total() const {
  Outcome total;
  for (const Worker& worker : workers_) {
    total.loss += worker.total.loss;
    total.correct += worker.total.correct;
  }
  return total;
}

Outcome LaneNet::Evaluate(const Batch& batch, std::span<float> scores) {
  CHECK(batch.images() <= options_.max_batch);
  team_.Run([&](size_t thread) { RunBlocks(thread, batch, /*backward=*/false, scores); });
  return Total();
}

Result<Outcome> LaneNet::ComputeGradients(const Batch& batch, uint64_t, const GradientSink& sink) {
  CHECK(batch.images() > 0 && batch.images() <= options_.max_batch);
  if (options_.early_gradients) return ComputeGradientsEarly(batch, sink);
  team_.Run([&](size_t thread) { RunBlocks(thread, batch, /*backward=*/true); });
  {
    TRACE_SCOPE("add up gradients", profiler::Cat::kCompute);
    team_.Run([&](size_t thread) {
      for (const Stage& s : stages_) SumGradients(s, thread, team_.size());
    });
  }
  for (size_t i = stages_.size(); i-- > 0;) RETURN_IF_ERROR(PassToSink(stages_[i], sink));
  return Total();
}

Result<Outcome> LaneNet::ComputeGradientsEarly(const Batch& batch, const GradientSink& sink) {
  for (std::atomic<size_t>& left : threads_left_) left = team_.size();
  sink_status_ = {};
  early_sink_ = &sink;
  team_.Run([&](size_t thread) { RunBlocks(thread, batch, /*backward=*/true); });
  early_sink_ = nullptr;
  RETURN_IF_ERROR(sink_status_);
  return Total();
}

Status LaneNet::PassToSink(const Stage& s, const GradientSink& sink) {
  const std::span<const float> all(gradient_);
  RETURN_IF_ERROR(sink(s.param, all.subspan(s.gradient, params_.weights(s.param).size())));
  return sink(s.param + 1, all.subspan(s.bias_gradient, params_.weights(s.param + 1).size()));
}

// A thread has finished the stage: it has added its images' gradients and does not read the stage's
// weights any more.
void LaneNet::StageDone(size_t stage) {
  if (threads_left_[stage].fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  {
    TRACE_SCOPE("add up gradients", profiler::Cat::kCompute);
    SumGradients(stages_[stage], 0, 1);
  }
  std::lock_guard lock(sink_mu_);
  if (sink_status_.ok()) sink_status_ = PassToSink(stages_[stage], *early_sink_);
}

std::string LaneNet::description() const {
  return std::string("own kernels (") + kernels_.instructions + "), " +
         std::to_string(team_.size()) + (team_.size() == 1 ? " thread" : " threads");
}

}  // namespace millrace::convnets
