// SPDX-License-Identifier: Apache-2.0
#include "sparse/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/random_problem.h"

namespace millrace::sparse {
namespace {

using test::MarginTolerance;
using test::Normalish;
using test::Problem;
using test::RandomProblem;

std::vector<const Kernels*> KernelsHere() {
  std::vector<const Kernels*> all = {&NativeKernels(CpuLevel::kPlain)};
  for (const CpuLevel level : {CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level <= DetectCpuLevel()) all.push_back(&NativeKernels(level));
  }
  if (MklKernels()) all.push_back(MklKernels());
  return all;
}

// The error that reordering a sum of `magnitudes` may cause.
float Tolerance(float magnitudes) { return 1e-6f + 1e-5f * magnitudes; }

TEST(Kernels, MarginsEqualThePlainOnesOnRandomShapes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    std::vector<float> slow(p.batch.rows()), fast(p.batch.rows());
    PlainKernels().margins(p.batch, p.weights, slow);
    for (const Kernels* kernels : KernelsHere()) {
      SCOPED_TRACE(kernels->instructions);
      std::fill(fast.begin(), fast.end(), NAN);
      kernels->margins(p.batch, p.weights, fast);
      for (size_t r = 0; r < fast.size(); ++r) {
        ASSERT_NEAR(fast[r], slow[r], MarginTolerance(p, r));
      }
    }
  }
}

TEST(Kernels, GradientsEqualThePlainOnesOnRandomShapes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    Random random(seed);
    std::vector<float> residuals(p.batch.rows());
    for (float& residual : residuals) residual = Normalish(random);
    std::vector<float> slow(p.batch.keys.size()), fast(p.batch.keys.size());
    PlainKernels().gradient(p.batch, residuals, slow);
    for (const Kernels* kernels : KernelsHere()) {
      SCOPED_TRACE(kernels->instructions);
      std::fill(fast.begin(), fast.end(), NAN);
      kernels->gradient(p.batch, residuals, fast);
      for (size_t k = 0; k < fast.size(); ++k) {
        ASSERT_NEAR(fast[k], slow[k], Tolerance(static_cast<float>(p.batch.nnz())));
      }
    }
  }
}

TEST(Kernels, LossAndResidualsEqualThePlainOnesAtEveryMargin) {
  std::vector<float> margins, labels, weights;
  for (float m = -110; m <= 110; m += 0.0137f) {
    margins.push_back(m);
    labels.push_back(margins.size() % 2 == 0 ? 1.0f : 0.0f);
    weights.push_back(0.1f + static_cast<float>(margins.size() % 7));
  }
  for (const float m : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e4f, -1e4f, 3e38f, -3e38f}) {
    for (const float label : {0.0f, 1.0f}) {
      margins.push_back(m);
      labels.push_back(label);
      weights.push_back(1);
    }
  }
  for (const bool weighted : {false, true}) {
    const std::span<const float> w =
        weighted ? std::span<const float>(weights) : std::span<const float>();
    for (const Kernels* kernels : KernelsHere()) {
      SCOPED_TRACE(kernels->instructions);
      for (size_t i = 0; i < margins.size(); ++i) {
        float fast_residual = 0, slow_residual = 0;
        const auto one = [&](std::span<const float> s) { return s.empty() ? s : s.subspan(i, 1); };
        const double fast =
            kernels->loss_and_residuals(one(margins), one(labels), one(w), {&fast_residual, 1});
        const double slow = PlainKernels().loss_and_residuals(one(margins), one(labels), one(w),
                                                              {&slow_residual, 1});
        ASSERT_NEAR(fast, slow, 1e-6 + 1e-6 * std::abs(slow)) << margins[i];
        ASSERT_NEAR(fast_residual, slow_residual, 3e-6) << margins[i];
      }
    }
  }
}

TEST(Kernels, LossOfManyIsTheSumOfEach) {
  for (const Kernels* kernels : KernelsHere()) {
    for (const size_t count : {0u, 1u, 7u, 8u, 9u, 100u}) {
      std::vector<float> margins(count), labels(count), residuals(count);
      double expected = 0;
      for (size_t i = 0; i < count; ++i) {
        margins[i] = static_cast<float>(i) - 3.5f;
        labels[i] = i % 3 == 0 ? 1.0f : 0.0f;
        expected += static_cast<double>(LogisticLoss(margins[i], labels[i]));
      }
      EXPECT_NEAR(kernels->loss_and_residuals(margins, labels, {}, residuals), expected, 1e-4);
    }
  }
}

TEST(Kernels, NanMarginsStayVisible) {
  const std::vector<float> margins = {std::numeric_limits<float>::quiet_NaN()}, labels = {1};
  std::vector<float> residuals(1);
  for (const Kernels* kernels : KernelsHere()) {
    EXPECT_TRUE(std::isnan(kernels->loss_and_residuals(margins, labels, {}, residuals)))
        << kernels->instructions;
    EXPECT_TRUE(std::isnan(residuals[0])) << kernels->instructions;
  }
}

TEST(Kernels, AreFoundByName) {
  EXPECT_EQ(*KernelsByName("plain"), &PlainKernels());
  EXPECT_EQ(*KernelsByName("native"), &NativeKernels());
  EXPECT_TRUE(KernelsByName("auto").ok());
  EXPECT_EQ(KernelsByName("mkl").ok(), MklKernels() != nullptr);
  EXPECT_FALSE(KernelsByName("fast").ok());
}

TEST(Logistic, IsFiniteAtAnyMargin) {
  EXPECT_EQ(LogisticLoss(1000, 1), 0);
  EXPECT_EQ(LogisticLoss(-1000, 1), 1000);
  EXPECT_EQ(LogisticLoss(1000, 0), 1000);
  EXPECT_EQ(Sigmoid(-1000), 0);
  EXPECT_EQ(Sigmoid(1000), 1);
  EXPECT_NEAR(LogisticLoss(0, 1), std::log(2.0), 1e-7);
}

// The loss in double precision, from its definition.
double Loss(const io::CsrBatch& batch, const std::vector<double>& weights) {
  double loss = 0;
  for (size_t r = 0; r < batch.rows(); ++r) {
    double m = 0;
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      m += (batch.values.empty() ? 1.0 : static_cast<double>(batch.values[i])) *
           weights[batch.cols[i]];
    }
    if (batch.labels[r] > 0) m = -m;
    const double one = std::max(m, 0.0) + std::log1p(std::exp(-std::abs(m)));
    loss += one * (batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[r]));
  }
  return loss;
}

// Every entry of the gradient against the finite difference of the loss, in the sign that training
// subtracts.
TEST(Kernels, GradientEqualsTheFiniteDifferenceOfTheLoss) {
  size_t checked = 0;
  for (uint64_t seed = 2; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    if (p.batch.nnz() > 10000) continue;
    const Kernels& kernels = NativeKernels();
    std::vector<float> margins(p.batch.rows()), gradient(p.batch.keys.size());
    kernels.margins(p.batch, p.weights, margins);
    kernels.loss_and_residuals(margins, p.batch.labels, p.batch.weights, margins);
    kernels.gradient(p.batch, margins, gradient);
    std::vector<double> weights(p.weights.begin(), p.weights.end());
    for (size_t k = 0; k < weights.size(); k += 1 + weights.size() / 20) {
      constexpr double kStep = 1e-4;
      const double w = weights[k];
      weights[k] = w + kStep;
      const double up = Loss(p.batch, weights);
      weights[k] = w - kStep;
      const double down = Loss(p.batch, weights);
      weights[k] = w;
      const double difference = (up - down) / (2 * kStep);
      ASSERT_NEAR(gradient[k], difference, 1e-3 + 1e-5 * std::abs(difference)) << "key " << k;
      ++checked;
    }
  }
  EXPECT_GT(checked, 500u);
}

}  // namespace
}  // namespace millrace::sparse
