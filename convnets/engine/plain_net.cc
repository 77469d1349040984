// SPDX-License-Identifier: Apache-2.0
#include "convnets/engine/plain_net.h"

#include <algorithm>

#include "convnets/engine/plain_ops.h"

namespace millrace::convnets {

PlainNet::PlainNet(const NetSpec& spec, const Params& params, const EngineOptions& options)
    : spec_(spec), params_(params), options_(options) {
  size_t most = 0, weights = 0, biases = 0, param = 0;
  for (const Layer& layer : spec_.layers) {
    outputs_.emplace_back(options.max_batch * layer.out.size());
    most = std::max({most, layer.in.size(), layer.out.size()});
    first_param_.push_back(param);
    if (!layer.has_params()) continue;
    param += 2;
    weights = std::max(weights, layer.weight_size());
    biases = std::max(biases, layer.out.channels);
  }
  for (std::vector<float>& buffer : activation_gradients_) buffer.resize(options.max_batch * most);
  dweights_.resize(weights);
  dbias_.resize(biases);
}

void PlainNet::ForwardLayer(size_t l, size_t images, std::span<const float> x,
                            const uint64_t* step) {
  const Layer& layer = spec_.layers[l];
  const std::span<float> y = std::span(outputs_[l]).first(images * layer.out.size());
  switch (layer.kind) {
    case LayerKind::kConv:
      return ConvForward(layer, images, x, params_.weights(first_param_[l]),
                         params_.weights(first_param_[l] + 1), y);
    case LayerKind::kFullyConnected:
      return FullyConnectedForward(layer, images, x, params_.weights(first_param_[l]),
                                   params_.weights(first_param_[l] + 1), y);
    case LayerKind::kRelu:
      return ReluForward(x, y);
    case LayerKind::kMaxPool:
      return MaxPoolForward(layer, images, x, y);
    case LayerKind::kLrn:
      return LrnForward(layer, images, x, y);
    case LayerKind::kDropout:
      if (step) return Dropout(layer.drop_rate, DropoutSeed(options_.seed, *step, l), 0, x, y);
      std::ranges::copy(x, y.begin());
  }
}

std::span<float> PlainNet::Forward(const Batch& batch, const uint64_t* step) {
  const size_t images = batch.images();
  CHECK(images <= options_.max_batch);
  std::span<const float> x = batch.pixels.first(images * spec_.input.size());
  for (size_t l = 0; l < spec_.layers.size(); ++l) {
    ForwardLayer(l, images, x, step);
    x = std::span(outputs_[l]).first(images * spec_.layers[l].out.size());
  }
  return std::span(outputs_.back()).first(x.size());
}

Outcome PlainNet::Evaluate(const Batch& batch, std::span<float> scores) {
  const std::span<const float> found = Forward(batch, nullptr);
  if (!scores.empty()) std::ranges::copy(found, scores.begin());
  return SoftmaxLoss(found, batch.labels, 1, {});
}

Status PlainNet::BackwardLayer(size_t l, size_t images, std::span<const float> x, uint64_t step,
                               std::span<const float> dy, std::span<float> dx,
                               const GradientSink& sink) {
  const Layer& layer = spec_.layers[l];
  const std::span<float> y = std::span(outputs_[l]).first(dy.size());
  switch (layer.kind) {
    case LayerKind::kRelu:
      ReluBackward(y, dy, dx);
      return {};
    case LayerKind::kMaxPool:
      MaxPoolBackward(layer, images, x, dy, dx);
      return {};
    case LayerKind::kLrn:
      LrnBackward(layer, images, x, dy, dx);
      return {};
    case LayerKind::kDropout:
      Dropout(layer.drop_rate, DropoutSeed(options_.seed, step, l), 0, dy, dx);
      return {};
    case LayerKind::kConv:
    case LayerKind::kFullyConnected:
      break;
  }
  const size_t param = first_param_[l];
  const std::span<float> dweights = std::span(dweights_).first(layer.weight_size());
  const std::span<float> dbias = std::span(dbias_).first(layer.out.channels);
  if (l == 0) dx = {};
  const auto backward = layer.kind == LayerKind::kConv ? ConvBackward : FullyConnectedBackward;
  backward(layer, images, x, params_.weights(param), dy, dx, dweights, dbias);
  RETURN_IF_ERROR(sink(param, dweights));
  return sink(param + 1, dbias);
}

Result<Outcome> PlainNet::ComputeGradients(const Batch& batch, uint64_t step,
                                           const GradientSink& sink) {
  const size_t images = batch.images();
  const std::span<float> scores = Forward(batch, &step);
  std::span<float> dy = std::span(activation_gradients_[0]).first(scores.size());
  const Outcome outcome = SoftmaxLoss(scores, batch.labels, 1.0f / static_cast<float>(images), dy);
  for (size_t l = spec_.layers.size(); l-- > 0;) {
    const Layer& layer = spec_.layers[l];
    const std::span<float> dx = std::span(activation_gradients_[(spec_.layers.size() - l) % 2])
                                    .first(images * layer.in.size());
    const std::span<const float> x =
        l == 0 ? batch.pixels.first(dx.size()) : std::span(outputs_[l - 1]).first(dx.size());
    RETURN_IF_ERROR(BackwardLayer(l, images, x, step, dy, dx, sink));
    dy = dx;
  }
  return outcome;
}

}  // namespace millrace::convnets
