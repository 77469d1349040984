// SPDX-License-Identifier: Apache-2.0
// The fast engines against the plain one, and against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "convnets/engine/lane_net.h"
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

std::unique_ptr<Net> Make(const std::string& engine, const NetSpec& spec, const Params& params,
                          const EngineOptions& options) {
  auto net = MakeEngine(engine, spec, params, options);
  EXPECT_TRUE(net.ok()) << net.status().message();
  return std::move(*net);
}

void ExpectAlike(const StepResult& fast, const StepResult& plain, const Params& params) {
  EXPECT_NEAR(fast.outcome.loss, plain.outcome.loss, 1e-4 * std::abs(plain.outcome.loss) + 1e-5);
  EXPECT_EQ(fast.outcome.correct, plain.outcome.correct);
  for (size_t p = 0; p < params.size(); ++p) {
    SCOPED_TRACE(params.all()[p].name);
    ASSERT_EQ(fast.gradients[p].size(), plain.gradients[p].size());
    float most = 0;
    for (const float g : plain.gradients[p]) most = std::max(most, std::abs(g));
    for (size_t i = 0; i < plain.gradients[p].size(); ++i) {
      ASSERT_NEAR(fast.gradients[p][i], plain.gradients[p][i], 1e-4f * most + 1e-7f) << i;
    }
  }
}

void CompareWithPlain(const std::string& engine, const NetSpec& spec, size_t max_batch,
                      std::initializer_list<size_t> sizes, size_t threads) {
  SCOPED_TRACE(spec.name);
  Params params(spec);
  params.Initialize(Init::kHe, 11);
  const EngineOptions options = {.max_batch = max_batch, .threads = threads, .seed = 9};
  const auto fast = Make(engine, spec, params, options);
  PlainNet plain(spec, params, options);
  for (const size_t images : sizes) {
    SCOPED_TRACE(images);
    const RandomBatch batch(spec, images, images);
    ExpectAlike(ComputeGradientsOnce(*fast, params, batch.view(), 3),
                ComputeGradientsOnce(plain, params, batch.view(), 3), params);
    std::vector<float> scores(images * spec.classes()), plain_scores(scores.size());
    const Outcome a = fast->Evaluate(batch.view(), scores);
    const Outcome b = plain.Evaluate(batch.view(), plain_scores);
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * std::abs(b.loss) + 1e-5);
    EXPECT_EQ(a.correct, b.correct);
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(scores[i], plain_scores[i], 1e-4 * std::abs(plain_scores[i]) + 1e-4) << i;
    }
    EXPECT_EQ(fast->Evaluate(batch.view()).loss, a.loss) << "scores change nothing";
    const std::vector<int32_t> no_labels(images, -1);
    const Outcome none = fast->Evaluate({batch.view().pixels, no_labels});
    EXPECT_EQ(none.loss, 0);
    EXPECT_EQ(none.correct, 0u);
  }
}

TEST(OnednnEngine, EqualsThePlainOne) {
  CompareWithPlain("onednn", TinyNet(), 5, {5, 3, 1}, 1);
  CompareWithPlain("onednn", TinyLeNet(), 4, {4, 2}, 1);
  CompareWithPlain("onednn", NarrowAlexNet(), 4, {4, 3}, 1);
  CompareWithPlain("onednn", *MakeNet({.name = "softmax"}), 4, {4, 2}, 1);
}

TEST(LaneEngine, EqualsThePlainOne) {
  CompareWithPlain("lanes", TinyLeNet(), 40, {40, 16, 3, 1}, 1);
  CompareWithPlain("lanes", TinyLeNet(), 40, {40, 17}, 3);
  CompareWithPlain("lanes", *MakeNet({.name = "softmax"}), 40, {40, 16, 5}, 2);
  CompareWithPlain("lanes", *MakeNet({.name = "lenet"}), 20, {20}, 2);
}

TEST(LaneEngine, EveryInstructionSetEqualsThePlainOne) {
  const NetSpec spec = TinyLeNet();
  Params params(spec);
  params.Initialize(Init::kXavier, 2);
  const EngineOptions options = {.max_batch = 20};
  const RandomBatch batch(spec, 20, 1);
  PlainNet plain(spec, params, options);
  const StepResult expected = ComputeGradientsOnce(plain, params, batch.view(), 1);
  for (const CpuLevel level : {CpuLevel::kPlain, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level > DetectCpuLevel()) continue;
    SCOPED_TRACE(CpuLevelName(level));
    auto net = LaneNet::Create(spec, params, options, level);
    ASSERT_TRUE(net.ok());
    ExpectAlike(ComputeGradientsOnce(**net, params, batch.view(), 1), expected, params);
  }
}

TEST(Engines, SameStepGivesTheSameBits) {
  for (const std::string engine : {"lanes", "onednn"}) {
    SCOPED_TRACE(engine);
    const NetSpec spec = TinyLeNet();
    Params params(spec);
    params.Initialize(Init::kHe, 4);
    const RandomBatch batch(spec, 33, 8);
    const size_t threads = engine == "lanes" ? 3 : 1;
    const auto one = Make(engine, spec, params, {.max_batch = 33, .threads = threads});
    const auto two = Make(engine, spec, params, {.max_batch = 33, .threads = threads});
    const StepResult a = ComputeGradientsOnce(*one, params, batch.view(), 1);
    ComputeGradientsOnce(*two, params, RandomBatch(spec, 5, 77).view(), 9);  // leaves no trace
    const StepResult b = ComputeGradientsOnce(*two, params, batch.view(), 1);
    EXPECT_EQ(a.gradients, b.gradients);
    EXPECT_EQ(a.outcome.loss, b.outcome.loss);
  }
}

TEST(LaneEngine, EarlyGradientsAreThoseOfTheEnd) {
  const NetSpec spec = TinyLeNet();
  Params params(spec);
  params.Initialize(Init::kHe, 4);
  for (const size_t threads : {1, 3}) {
    EngineOptions options = {.max_batch = 70, .threads = threads};
    const auto late = Make("lanes", spec, params, options);
    options.early_gradients = true;
    const auto early = Make("lanes", spec, params, options);
    for (const size_t images : {70, 16, 1, 33}) {  // 1 and 16: threads without any
      const RandomBatch batch(spec, images, images);
      const StepResult a = ComputeGradientsOnce(*late, params, batch.view(), 1);
      const StepResult b = ComputeGradientsOnce(*early, params, batch.view(), 1);
      EXPECT_EQ(a.gradients, b.gradients) << threads << " threads, " << images << " images";
      EXPECT_EQ(a.outcome.loss, b.outcome.loss);
    }
  }
}

// If conv2's weights are nothing by the time that its backward pass reads them, then nothing comes
// to conv1: its gradient tells that the last layer's had left before.
TEST(Engines, SinkGetsGradientsBeforeEarlierLayersAreComputed) {
  for (const std::string engine : {"lanes", "onednn"}) {
    SCOPED_TRACE(engine);
    const NetSpec spec = TinyLeNet();
    Params params(spec);
    params.Initialize(Init::kHe, 4);
    const auto net = Make(engine, spec, params, {.max_batch = 4, .early_gradients = true});
    const RandomBatch batch(spec, 4, 8);
    std::vector<size_t> order;
    std::vector<float> conv1;
    const auto outcome =
        net->ComputeGradients(batch.view(), 1, [&](size_t param, std::span<const float> gradient) {
          if (order.empty()) std::ranges::fill(params.weights(2), 0.0f);
          if (param == 0) conv1.assign(gradient.begin(), gradient.end());
          order.push_back(param);
          return Status();
        });
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(order, (std::vector<size_t>{6, 7, 4, 5, 2, 3, 0, 1}));
    EXPECT_EQ(conv1, std::vector<float>(conv1.size()));
  }
}

TEST(Engines, SinkErrorEndsTheStep) {
  for (const std::string engine : {"plain", "lanes", "early lanes", "onednn"}) {
    const NetSpec spec = TinyLeNet();
    Params params(spec);
    const bool early = engine.starts_with("early");
    const auto net =
        Make(early ? "lanes" : engine, spec, params, {.max_batch = 4, .early_gradients = early});
    const RandomBatch batch(spec, 4, 8);
    int calls = 0;
    const auto outcome =
        net->ComputeGradients(batch.view(), 1, [&](size_t, std::span<const float>) {
          ++calls;
          return Invalid("enough");
        });
    EXPECT_EQ(outcome.status().message(), "enough");
    EXPECT_EQ(calls, 1);
  }
}

TEST(Engines, UnknownOnesAndUnfitNetsAreRefused) {
  const NetSpec spec = TinyNet();
  Params params(spec);
  EXPECT_EQ(MakeEngine("cuda", spec, params, {}).status().message(),
            "engine: expected auto, lanes, onednn or plain, found 'cuda'");
  EXPECT_EQ(MakeEngine("lanes", spec, params, {}).status().message(),
            "engine lanes cannot run layer conv1 of tiny: expected kernel 5 and stride 1");
  EXPECT_FALSE(MakeEngine("auto", spec, params, {.max_batch = 0}).ok());
  EXPECT_TRUE(MakeEngine("auto", spec, params, {}).ok());
}

}  // namespace
}  // namespace millrace::convnets
