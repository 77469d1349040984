// SPDX-License-Identifier: Apache-2.0
// The gradient of every op and net against finite differences of its loss.
#include <gtest/gtest.h>

#include <cmath>

#include "convnets/engine/plain_net.h"
#include "tests/support/small_nets.h"

namespace millrace::convnets {
namespace {

using test::ComputeGradientsOnce;
using test::NarrowAlexNet;
using test::RandomBatch;
using test::StepResult;
using test::TinyLeNet;
using test::TinyNet;

// Loss of the batch with dropout as in `step`: the sum of what ComputeGradients reports.
double LossOf(Net& net, const Batch& batch) {
  const auto outcome =
      net.ComputeGradients(batch, 7, [](size_t, std::span<const float>) { return Status(); });
  return outcome->loss / static_cast<double>(batch.images());
}

// Compares the directional derivative along the gradient, for each parameter separately: rounding
// in single precision leaves about three digits.
void CheckNet(const NetSpec& spec) {
  SCOPED_TRACE(spec.name);
  Params params(spec);
  params.Initialize(Init::kHe, 3);
  const RandomBatch batch(spec, 3, 5);
  PlainNet net(spec, params, {.max_batch = 3});
  const StepResult result = ComputeGradientsOnce(net, params, batch.view(), 7);
  for (size_t p = 0; p < params.size(); ++p) {
    SCOPED_TRACE(params.all()[p].name);
    double norm = 0;
    for (const float g : result.gradients[p]) norm += static_cast<double>(g * g);
    norm = std::sqrt(norm);
    ASSERT_GT(norm, 0);
    const std::vector<float> kept(params.weights(p).begin(), params.weights(p).end());
    const double h = 2e-3;
    double loss[2];
    for (const int side : {0, 1}) {
      for (size_t i = 0; i < kept.size(); ++i) {
        const double along = static_cast<double>(result.gradients[p][i]) / norm;
        params.weights(p)[i] =
            static_cast<float>(static_cast<double>(kept[i]) + (side ? h : -h) * along);
      }
      loss[side] = LossOf(net, batch.view());
    }
    std::copy(kept.begin(), kept.end(), params.weights(p).begin());
    EXPECT_NEAR((loss[1] - loss[0]) / (2 * h), norm, 0.02 * norm + 2e-4);
  }
}

const Shape kImage = {4, 7, 6};

TEST(GradientCheck, FullyConnected) {
  CheckNet(NetBuilder("fc", kImage).FullyConnected("fc", 5).Build());
}

TEST(GradientCheck, Convolution) {
  CheckNet(NetBuilder("conv", kImage).Conv("c1", 3, {3, 1, 1}).Conv("c2", 5, {2, 2, 0}).Build());
}

TEST(GradientCheck, ConvolutionWithGroups) {
  CheckNet(
      NetBuilder("groups", kImage).Conv("c1", 6, {3, 1, 1}, 2).Conv("c2", 4, {3, 2, 1}, 2).Build());
}

TEST(GradientCheck, Relu) {
  CheckNet(NetBuilder("relu", kImage)
               .FullyConnected("fc1", 9)
               .Relu("relu")
               .FullyConnected("fc2", 4)
               .Build());
}

TEST(GradientCheck, OverlappingMaxPooling) {
  CheckNet(NetBuilder("pool", kImage)
               .Conv("c1", 3, {3, 1, 1})
               .MaxPool("pool", {3, 2, 0})
               .FullyConnected("fc", 4)
               .Build());
}

TEST(GradientCheck, Lrn) {
  CheckNet(NetBuilder("lrn", kImage)
               .Conv("c1", 7, {3, 1, 0})
               .Lrn("lrn", {.size = 5, .k = 1, .alpha = 0.5f, .beta = 0.75f})
               .FullyConnected("fc", 4)
               .Build());
}

TEST(GradientCheck, Dropout) {
  CheckNet(NetBuilder("dropout", kImage)
               .FullyConnected("fc1", 20)
               .Dropout("drop", 0.3)
               .FullyConnected("fc2", 4)
               .Build());
}

TEST(GradientCheck, WholeNets) {
  CheckNet(TinyNet());
  CheckNet(TinyLeNet());
  CheckNet(*MakeNet({.name = "softmax"}));
  CheckNet(*MakeNet({.name = "lenet"}));
  CheckNet(NarrowAlexNet());
}

}  // namespace
}  // namespace millrace::convnets
