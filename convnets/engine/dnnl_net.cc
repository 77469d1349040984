// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/dnnl_net.h"

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "convnets/engine/dnnl_ops.h"
#include "convnets/engine/plain_ops.h"
#include "profiler/trace.h"

namespace millrace::convnets {
namespace {

constexpr size_t kChannelBlock = 16;  // blocked layouts pad channels to a multiple of at most this

class DnnlNet final : public Net {
 public:
  // Throws dnnl::error.
  DnnlNet(const NetSpec& spec, const Params& params, const EngineOptions& options)
      : spec_(spec), options_(options) {
    omp_set_num_threads(static_cast<int>(options.threads));
    plan_.images = static_cast<dnnl::memory::dim>(options.max_batch);
    plan_.spec = &spec_;
    plan_.params = &params;
    plan_.seed = options.seed;
    MakeBuffers();
    const Shape& in = spec_.input;
    const auto dim = [](size_t size) { return static_cast<dnnl::memory::dim>(size); };
    images_ = plan_.Make({{plan_.images, dim(in.channels), dim(in.height), dim(in.width)},
                          dnnl::memory::data_type::f32,
                          dnnl::memory::format_tag::nchw});
    AddOps();
  }

  using Net::Evaluate;
  Outcome Evaluate(const Batch& batch, std::span<float> scores) override {
    plan_.training = false;
    const std::span<const float> found = Forward(batch);
    if (!scores.empty()) std::ranges::copy(found, scores.begin());
    return SoftmaxLoss(found, batch.labels, 1, {});
  }

  Result<Outcome> ComputeGradients(const Batch& batch, uint64_t step,
                                   const GradientSink& sink) override {
    plan_.training = true;
    plan_.step = step;
    const std::span<float> scores = Forward(batch);
    const std::span<float> dscores = Floats(ops_.back()->dy);
    std::ranges::fill(dscores.subspan(scores.size()), 0.0f);
    const Outcome outcome =
        SoftmaxLoss(scores, batch.labels, 1.0f / static_cast<float>(batch.images()),
                    dscores.first(scores.size()));
    for (size_t i = ops_.size(); i-- > 0;) {
      TRACE_SCOPE(spans_[i].backward.c_str(), profiler::Cat::kCompute,
                  {.rows = static_cast<int64_t>(batch.images())});
      RETURN_IF_ERROR(ops_[i]->Backward(plan_, sink));
    }
    return outcome;
  }

  void ParallelFor(size_t size, const std::function<void(size_t, size_t)>& work) override {
    constexpr size_t kSmall = 1 << 16;
    if (size <= kSmall || options_.threads == 1) return work(0, size);
    const auto threads = static_cast<size_t>(options_.threads);
#pragma omp parallel for schedule(static, 1)
    for (size_t t = 0; t < threads; ++t) {
      work(size * t / threads, size * (t + 1) / threads);
    }
  }

  std::string description() const override {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + ", " + std::to_string(options_.threads) +
           (options_.threads == 1 ? " thread" : " threads");
  }

 private:
  struct Spans {
    std::string forward, backward;
  };

  void MakeBuffers() {
    size_t most = 0, weights = 0, biases = 0;
    for (const Layer& layer : spec_.layers) {
      for (const Shape& shape : {layer.in, layer.out}) {
        const size_t channels =
            (shape.channels + kChannelBlock - 1) / kChannelBlock * kChannelBlock;
        most = std::max(most, channels * shape.height * shape.width);
      }
      if (!layer.has_params()) continue;
      weights = std::max(weights, layer.weight_size());
      biases = std::max(biases, layer.out.channels);
    }
    const auto make = [&](size_t size) {
      plan_.arrays.emplace_back(size);
      return plan_.arrays.back().span();
    };
    plan_.activation_gradients = {make(most * options_.max_batch).data(),
                                  make(most * options_.max_batch).data()};
    plan_.gradient = make(weights);
    plan_.bias_gradient = make(biases);
  }

  void AddOps() {
    const std::vector<Layer>& layers = spec_.layers;
    size_t param = 0;
    dnnl::memory x = images_;
    for (size_t l = 0; l < layers.size(); ++l) {
      const Layer& layer = layers[l];
      const bool relu =
          layer.has_params() && l + 1 < layers.size() && layers[l + 1].kind == LayerKind::kRelu;
      ops_.push_back(MakeOp(l, param, relu, x, ops_.size() % 2));
      spans_.push_back({layer.name + " forward", layer.name + " backward"});
      if (layer.has_params()) param += 2;
      if (relu) ++l;
      x = ops_.back()->y;
    }
  }

  std::unique_ptr<DnnlOp> MakeOp(size_t l, size_t param, bool relu, const dnnl::memory& x,
                                 size_t which) {
    switch (spec_.layers[l].kind) {
      case LayerKind::kConv:
        return MakeDnnlConv(plan_, l, param, relu, x, which);
      case LayerKind::kMaxPool:
        return MakeDnnlPool(plan_, l, x, which);
      case LayerKind::kLrn:
        return MakeDnnlLrn(plan_, l, x, which);
      case LayerKind::kRelu:
        return MakeDnnlRelu(plan_, x, which);
      case LayerKind::kFullyConnected:
        return MakeDnnlFc(plan_, l, param, relu, x, which);
      case LayerKind::kDropout:
        return MakeDnnlDropout(plan_, l, x, which);
    }
    return nullptr;
  }

  // A partial batch is padded with black images, whose scores are ignored.
  std::span<float> Forward(const Batch& batch) {
    CHECK(batch.images() > 0 && batch.images() <= options_.max_batch);
    const std::span<float> images = Floats(images_);
    {
      TRACE_SCOPE("copy images", profiler::Cat::kCompute,
                  {.rows = static_cast<int64_t>(batch.images())});
      const std::span<const float> given = batch.pixels.first(batch.images() * spec_.input.size());
      std::ranges::copy(given, images.begin());
      std::ranges::fill(images.subspan(given.size()), 0.0f);
    }
    for (size_t i = 0; i < ops_.size(); ++i) {
      TRACE_SCOPE(spans_[i].forward.c_str(), profiler::Cat::kCompute,
                  {.rows = static_cast<int64_t>(batch.images())});
      ops_[i]->Forward(plan_);
    }
    return Floats(ops_.back()->y).first(batch.images() * spec_.classes());
  }

  const NetSpec spec_;
  const EngineOptions options_;
  DnnlPlan plan_;
  dnnl::memory images_;
  std::vector<std::unique_ptr<DnnlOp>> ops_;
  std::vector<Spans> spans_;
};

}  // namespace

Result<std::unique_ptr<Net>> MakeDnnlNet(const NetSpec& spec, const Params& params,
                                         const EngineOptions& options) {
  try {
    return std::unique_ptr<Net>(std::make_unique<DnnlNet>(spec, params, options));
  } catch (const dnnl::error& error) {
    return Invalid("engine onednn cannot run " + spec.name + ": " + error.what());
  }
}

}  // namespace millrace::convnets
