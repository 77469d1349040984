// SPDX-License-Identifier: Apache-2.0
#include "convnets/net/net_spec.h"

#include <utility>

namespace millrace::convnets {

std::string ShapeText(const Shape& shape) {
  std::string text = std::to_string(shape.channels);
  if (shape.height * shape.width == 1) return text;
  return text + "x" + std::to_string(shape.height) + "x" + std::to_string(shape.width);
}

const char* LayerKindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConv:
      return "conv";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kMaxPool:
      return "max_pool";
    case LayerKind::kLrn:
      return "lrn";
    case LayerKind::kFullyConnected:
      return "fc";
    case LayerKind::kDropout:
      return "dropout";
  }
  return "unknown";
}

size_t Layer::fan_in() const {
  if (kind == LayerKind::kConv) return in.channels / groups * window.kernel * window.kernel;
  return in.size();
}

size_t NetSpec::parameters() const {
  size_t sum = 0;
  for (const Layer& layer : layers) {
    if (layer.has_params()) sum += layer.weight_size() + layer.out.channels;
  }
  return sum;
}

NetBuilder& NetBuilder::Add(Layer layer) {
  layer.in = Top();
  if (layer.out.size() == 0) layer.out = layer.in;
  spec_.layers.push_back(std::move(layer));
  return *this;
}

NetBuilder& NetBuilder::Conv(const std::string& name, size_t channels, Window window,
                             size_t groups) {
  const Shape in = Top();
  CHECK(in.channels % groups == 0 && channels % groups == 0);
  return Add({.name = name,
              .kind = LayerKind::kConv,
              .in = {},
              .out = {channels, window.OutputSize(in.height), window.OutputSize(in.width)},
              .window = window,
              .groups = groups});
}

NetBuilder& NetBuilder::Relu(const std::string& name) {
  return Add({.name = name, .kind = LayerKind::kRelu, .in = {}, .out = Top()});
}

NetBuilder& NetBuilder::MaxPool(const std::string& name, Window window) {
  const Shape in = Top();
  return Add({.name = name,
              .kind = LayerKind::kMaxPool,
              .in = {},
              .out = {in.channels, window.OutputSize(in.height), window.OutputSize(in.width)},
              .window = window});
}

NetBuilder& NetBuilder::Lrn(const std::string& name, LrnNumbers numbers) {
  return Add({.name = name, .kind = LayerKind::kLrn, .in = {}, .out = Top(), .lrn = numbers});
}

NetBuilder& NetBuilder::FullyConnected(const std::string& name, size_t outputs) {
  return Add({.name = name, .kind = LayerKind::kFullyConnected, .in = {}, .out = {outputs, 1, 1}});
}

NetBuilder& NetBuilder::Dropout(const std::string& name, double rate) {
  return Add(
      {.name = name, .kind = LayerKind::kDropout, .in = {}, .out = Top(), .drop_rate = rate});
}

Result<NetSpec> MakeNet(const NetOptions& options) {
  const bool alexnet = options.name == "alexnet";
  const size_t classes = options.num_classes > 0 ? options.num_classes : alexnet ? 1000 : 10;
  if (classes < 2 || classes > 1'000'000) {
    return Invalid("num_classes: expected 2 to 1000000, found " + std::to_string(classes));
  }
  if (options.name == "softmax") {
    return NetBuilder("softmax", {1, 28, 28}).FullyConnected("fc", classes).Build();
  }
  if (options.name == "lenet") {
    return NetBuilder("lenet", {1, 28, 28})
        .Conv("conv1", 6, {.kernel = 5, .stride = 1, .pad = 2})
        .Relu("relu1")
        .MaxPool("pool1", {.kernel = 2, .stride = 2})
        .Conv("conv2", 16, {.kernel = 5})
        .Relu("relu2")
        .MaxPool("pool2", {.kernel = 2, .stride = 2})
        .FullyConnected("fc3", 120)
        .Relu("relu3")
        .FullyConnected("fc4", 84)
        .Relu("relu4")
        .FullyConnected("fc5", classes)
        .Build();
  }
  if (alexnet) {
    return NetBuilder("alexnet", {3, 227, 227})
        .Conv("conv1", 96, {.kernel = 11, .stride = 4})
        .Relu("relu1")
        .Lrn("norm1")
        .MaxPool("pool1", {.kernel = 3, .stride = 2})
        .Conv("conv2", 256, {.kernel = 5, .stride = 1, .pad = 2}, 2)
        .Relu("relu2")
        .Lrn("norm2")
        .MaxPool("pool2", {.kernel = 3, .stride = 2})
        .Conv("conv3", 384, {.kernel = 3, .stride = 1, .pad = 1})
        .Relu("relu3")
        .Conv("conv4", 384, {.kernel = 3, .stride = 1, .pad = 1}, 2)
        .Relu("relu4")
        .Conv("conv5", 256, {.kernel = 3, .stride = 1, .pad = 1}, 2)
        .Relu("relu5")
        .MaxPool("pool5", {.kernel = 3, .stride = 2})
        .FullyConnected("fc6", 4096)
        .Relu("relu6")
        .Dropout("drop6", 0.5)
        .FullyConnected("fc7", 4096)
        .Relu("relu7")
        .Dropout("drop7", 0.5)
        .FullyConnected("fc8", classes)
        .Build();
  }
  return Invalid("net: expected softmax, lenet or alexnet, found '" + options.name + "'");
}

}  // namespace millrace::convnets
