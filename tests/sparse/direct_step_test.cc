// SPDX-License-Identifier: Apache-2.0
#include "sparse/direct_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "io/base/random.h"
#include "sparse/kernels.h"
#include "sparse/local_store.h"
#include "tests/support/random_problem.h"

namespace millrace::sparse {
namespace {

using test::Problem;
using test::RandomProblem;

constexpr uint64_t kFeatures = 3001;

// The same batch with feature indices in place of positions.
io::CsrBatch Expanded(const io::CsrBatch& batch) {
  io::CsrBatch direct = batch;
  for (uint32_t& col : direct.cols) col = static_cast<uint32_t>(batch.keys[col]);
  direct.keys.clear();
  direct.compacted = false;
  return direct;
}

// One step through pull, kernels and push.
void CompactedStep(const io::CsrBatch& batch, LocalStore& store, std::vector<float>& margins) {
  std::vector<uint64_t> keys(batch.keys.begin(), batch.keys.end());
  keys.push_back(io::kInterceptKey);
  std::vector<float> weights(keys.size()), gradient(keys.size()), residuals(batch.rows());
  margins.resize(batch.rows());
  ASSERT_TRUE(store.Pull(keys, weights).ok());
  PlainKernels().margins(batch, std::span(weights).first(batch.keys.size()), margins);
  for (float& margin : margins) margin += weights.back();
  PlainKernels().loss_and_residuals(margins, batch.labels, batch.weights, residuals);
  PlainKernels().gradient(batch, residuals, std::span(gradient).first(batch.keys.size()));
  gradient.back() = std::accumulate(residuals.begin(), residuals.end(), 0.0f);
  ASSERT_TRUE(store.Push(keys, gradient, {}).ok());
}

void DirectStepOn(const io::CsrBatch& batch, LocalStore& store, std::vector<float>& margins) {
  std::vector<float> residuals(batch.rows());
  margins.resize(batch.rows());
  store.DirectBegin(batch, margins);
  PlainKernels().loss_and_residuals(margins, batch.labels, batch.weights, residuals);
  store.DirectFinish(batch, residuals);
}

std::vector<float> AllWeights(LocalStore& store) {
  std::vector<uint64_t> keys(kFeatures);
  for (uint64_t k = 0; k < keys.size(); ++k) keys[k] = k;
  if (store.has_intercept()) keys.push_back(io::kInterceptKey);
  std::vector<float> weights(keys.size());
  EXPECT_TRUE(store.Pull(keys, weights).ok());
  return weights;
}

TEST(DirectStep, EqualsTheCompactedOneForEveryRule) {
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    const UpdateOptions options{.rule = rule, .rate = 0.01};
    auto compacted = LocalStore::Create({kFeatures}, options),
         direct = LocalStore::Create({kFeatures}, options);
    ASSERT_TRUE(compacted.ok() && direct.ok());
    std::vector<float> expected, margins;
    for (uint64_t seed = 2; seed < 12; ++seed) {
      SCOPED_TRACE(seed);
      const Problem p = RandomProblem(seed);
      CompactedStep(p.batch, **compacted, expected);
      DirectStepOn(Expanded(p.batch), **direct, margins);
      for (size_t r = 0; r < margins.size(); ++r) {
        ASSERT_NEAR(margins[r], expected[r], 1e-3f + 1e-4f * std::abs(expected[r]));
      }
    }
    const std::vector<float> slow = AllWeights(**compacted), fast = AllWeights(**direct);
    for (size_t k = 0; k < slow.size(); ++k) ASSERT_NEAR(fast[k], slow[k], 1e-3f) << k;
  }
}

// What a step sees, and what a test between two steps sees, are the same weights.
TEST(DirectStep, MarginsOfAStepAreThoseOfAnEvaluationBitForBit) {
  for (const Rule rule : kRules) {
    SCOPED_TRACE(RuleName(rule));
    auto store = LocalStore::Create({kFeatures}, {.rule = rule, .rate = 0.05});
    std::vector<float> margins;
    for (uint64_t seed = 2; seed < 30; ++seed) {
      SCOPED_TRACE(seed);
      const io::CsrBatch batch = Expanded(RandomProblem(seed).batch);
      std::vector<float> tested(batch.rows());
      (*store)->DirectMargins(batch, tested);
      DirectStepOn(batch, **store, margins);
      ASSERT_EQ(margins, tested);
    }
  }
}

// One key at a time through Push is the scalar rule; a step takes four features at once.
TEST(DirectStep, FourFeaturesAtOnceEqualOneByOneBitForBit) {
  for (const Rule rule : kRules) {
    if (rule == Rule::kSgd) continue;  // it does not tag slots
    SCOPED_TRACE(RuleName(rule));
    const UpdateOptions options{.rule = rule, .l1 = rule == Rule::kFtrl ? 0.3 : 0, .l2 = 0.1};
    auto one = LocalStore::Create({kFeatures, false}, options),
         four = LocalStore::Create({0, false}, options);
    Random random(8);
    for (int step = 0; step < 20; ++step) {
      io::CsrBatch batch;
      std::vector<uint64_t> keys;
      std::vector<float> residuals, margins;
      batch.row_begin.assign(1, 0);
      for (uint64_t key = random.Next() % 5; key < 300; key += 1 + random.Next() % 20) {
        keys.push_back(key);
        residuals.push_back(static_cast<float>(random.Uniform() - 0.5));
        batch.cols.push_back(static_cast<uint32_t>(key));
        batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
        batch.labels.push_back(0);
      }
      margins.resize(keys.size());
      (*one)->DirectBegin(batch, margins);
      (*one)->DirectFinish(batch, residuals);
      ASSERT_TRUE((*four)->Push(keys, residuals, {}).ok());
    }
    EXPECT_EQ(AllWeights(**one), AllWeights(**four));
  }
}

// A NaN of the processor's own making is negative: it must not pass for a tag.
TEST(DirectStep, NanStateDoesNotBreakTheNextStep) {
  for (const Rule rule : kRules) {
    if (rule == Rule::kSgd) continue;  // it does not tag slots
    auto store = LocalStore::Create({10}, {.rule = rule});
    io::CsrBatch batch;
    batch.row_begin = {0, 2};
    batch.cols = {3, 9};
    batch.labels = {0};
    std::vector<float> margins(1);
    for (const float residual : {-std::numeric_limits<float>::quiet_NaN(), 1.0f}) {
      (*store)->DirectBegin(batch, margins);
      (*store)->DirectFinish(batch, std::vector<float>{residual});
    }
    const std::vector<uint64_t> keys = {3, 9};
    const float nan = -std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE((*store)->Push(keys, std::vector<float>{nan, nan}, {}).ok());
    (*store)->DirectBegin(batch, margins);
    (*store)->DirectFinish(batch, std::vector<float>{1.0f});
    EXPECT_TRUE(std::isnan(margins[0]));
  }
}

TEST(DirectStep, SumThatCrossesZeroTakesOneStep) {
  io::CsrBatch batch;
  batch.row_begin = {0, 1, 2, 3, 4, 5};
  batch.cols = {7, 7, 7, 3, 3};
  batch.labels = {0, 0, 0, 0, 0};
  const std::vector<float> residuals = {0.5f, -0.5f, 0.25f, 0.5f, -0.5f};
  auto store = LocalStore::Create({10, false}, {.rule = Rule::kAdaGrad, .rate = 0.1});
  std::vector<float> margins(batch.rows());
  (*store)->DirectBegin(batch, margins);
  (*store)->DirectFinish(batch, residuals);
  int states = 0;
  (*store)->ForEach([&](uint64_t key, std::span<const float> state) {
    ++states;
    EXPECT_EQ(key, 7u) << "a gradient of zero leaves no state";
    EXPECT_FLOAT_EQ(state[1], 0.0625f) << "n is the square of the sum, not the sum of squares";
  });
  EXPECT_EQ(states, 1);
}

}  // namespace
}  // namespace millrace::sparse
