// SPDX-License-Identifier: Apache-2.0
// Random images, labels and small nets for tests.
#pragma once

#include <string>
#include <vector>

#include "convnets/net/net.h"
#include "io/base/random.h"

namespace millrace::test {

inline std::vector<float> RandomFloats(Random& random, size_t size) {
  std::vector<float> numbers(size);
  for (float& x : numbers) x = static_cast<float>(random.Uniform() * 2 - 1);
  return numbers;
}

struct RandomBatch {
  std::vector<float> pixels;
  std::vector<int32_t> labels;

  RandomBatch(const convnets::NetSpec& spec, size_t images, uint64_t seed) {
    Random random(seed);
    pixels = RandomFloats(random, images * spec.input.size());
    for (size_t n = 0; n < images; ++n) {
      labels.push_back(static_cast<int32_t>(random.Below(spec.classes())));
    }
  }
  convnets::Batch view() const { return {pixels, labels}; }
};

// All that a step gives.
struct StepResult {
  convnets::Outcome outcome;
  std::vector<std::vector<float>> gradients;
};

inline StepResult ComputeGradientsOnce(convnets::Net& net, const convnets::Params& params,
                                       const convnets::Batch& batch, uint64_t step) {
  StepResult result;
  result.gradients.resize(params.size());
  const auto outcome =
      net.ComputeGradients(batch, step, [&](size_t p, std::span<const float> gradient) {
        result.gradients[p].assign(gradient.begin(), gradient.end());
        return Status();
      });
  if (outcome.ok()) result.outcome = *outcome;
  return result;
}

// Every kind of layer, in a few thousand numbers.
inline convnets::NetSpec TinyNet() {
  return convnets::NetBuilder("tiny", {3, 13, 13})
      .Conv("conv1", 8, {.kernel = 3, .stride = 2})
      .Relu("relu1")
      .Lrn("norm1", {.size = 5, .k = 1, .alpha = 0.3f, .beta = 0.75f})
      .MaxPool("pool1", {.kernel = 3, .stride = 2})
      .Conv("conv2", 6, {.kernel = 3, .stride = 1, .pad = 1}, 2)
      .Relu("relu2")
      .FullyConnected("fc3", 10)
      .Relu("relu3")
      .Dropout("drop3", 0.4)
      .FullyConnected("fc4", 5)
      .Build();
}

// LeNet's kinds of layers with other sizes.
inline convnets::NetSpec TinyLeNet() {
  return convnets::NetBuilder("tiny_lenet", {2, 14, 15})
      .Conv("conv1", 5, {.kernel = 5, .stride = 1, .pad = 2})
      .Relu("relu1")
      .MaxPool("pool1", {.kernel = 2, .stride = 2})
      .Conv("conv2", 3, {.kernel = 5})
      .MaxPool("pool2", {.kernel = 2, .stride = 2})
      .FullyConnected("fc3", 7)
      .Relu("relu3")
      .FullyConnected("fc4", 11)
      .Build();
}

// AlexNet's own layers on a smaller image, with a sixteenth of the channels.
inline convnets::NetSpec NarrowAlexNet() {
  const convnets::NetSpec whole = *convnets::MakeNet({.name = "alexnet"});
  convnets::NetBuilder narrow("narrow_alexnet", {3, 67, 67});
  for (const convnets::Layer& layer : whole.layers) {
    switch (layer.kind) {
      case convnets::LayerKind::kConv:
        narrow.Conv(layer.name, layer.out.channels / 16, layer.window, layer.groups);
        break;
      case convnets::LayerKind::kRelu:
        narrow.Relu(layer.name);
        break;
      case convnets::LayerKind::kMaxPool:
        narrow.MaxPool(layer.name, layer.window);
        break;
      case convnets::LayerKind::kLrn:
        narrow.Lrn(layer.name, layer.lrn);
        break;
      case convnets::LayerKind::kFullyConnected:
        narrow.FullyConnected(layer.name, layer.name == "fc8" ? 7 : 40);
        break;
      case convnets::LayerKind::kDropout:
        narrow.Dropout(layer.name, layer.drop_rate);
        break;
    }
  }
  return narrow.Build();
}

}  // namespace millrace::test
