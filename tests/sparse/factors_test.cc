// SPDX-License-Identifier: Apache-2.0
#include "sparse/factors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "sparse/factor_kernels.h"
#include "sparse/kernels.h"
#include "tests/support/random_problem.h"

namespace millrace::sparse {
namespace {

using io::CsrBatch;
using test::Normalish;
using test::Problem;
using test::RandomProblem;

FactorShape Fm(uint32_t factors) {
  return {.kind = ModelKind::kFm, .factors = factors, .init = 0.1, .seed = 7};
}

FactorShape Ffm(uint32_t fields, uint32_t factors) {
  FactorShape shape = Fm(factors);
  shape.kind = ModelKind::kFfm;
  shape.fields = fields;
  return shape;
}

TEST(Factors, InitialFactorsDeriveFromSeedAndKeyAlone) {
  std::vector<float> a(8), b(8), longer(16);
  InitialFactors(Fm(8), 12345, a);
  InitialFactors(Fm(8), 12345, b);
  InitialFactors(Fm(16), 12345, longer);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, std::vector<float>(longer.begin(), longer.begin() + 8));
  InitialFactors(Fm(8), 12346, b);
  EXPECT_NE(a, b);
  FactorShape other = Fm(8);
  other.seed = 8;
  InitialFactors(other, 12345, b);
  EXPECT_NE(a, b);
}

TEST(Factors, InitialFactorsHaveTheStandardDeviationThatWasAskedFor) {
  std::vector<float> v(8);
  double sum = 0, squares = 0;
  constexpr int kKeys = 20000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    InitialFactors(Fm(8), key, v);
    for (const float x : v) {
      ASSERT_NE(x, 0);
      sum += x;
      squares += double{x} * x;
    }
  }
  EXPECT_NEAR(sum / (8 * kKeys), 0, 0.001);
  EXPECT_NEAR(std::sqrt(squares / (8 * kKeys)), 0.1, 0.001);
}

TEST(Factors, ImpossibleShapesAreErrors) {
  for (const uint32_t factors : {0u, 3u, 6u, 68u}) {
    EXPECT_EQ(Fm(factors).Validate().code(), Code::kInvalid) << factors;
  }
  for (const uint32_t fields : {0u, 1025u}) {
    EXPECT_EQ(Ffm(fields, 4).Validate().code(), Code::kInvalid) << fields;
  }
  EXPECT_TRUE(Ffm(1024, 4).Validate().ok());
  FactorShape shape = Fm(8);
  EXPECT_TRUE(shape.Validate().ok());
  shape.init = 0;
  EXPECT_EQ(shape.Validate().code(), Code::kInvalid);
  EXPECT_EQ(ModelKindFromName("gbm").status().message(),
            "model: expected lr, fm or ffm, found 'gbm'");
}

TEST(Factors, FieldsOfAFileReadBack) {
  io::StateFields fields;
  AddFactorShape(Fm(12), fields);
  EXPECT_EQ(*FactorShapeFrom(fields), Fm(12));
  io::StateFields of_ffm;
  AddFactorShape(Ffm(39, 4), of_ffm);
  EXPECT_EQ(*FactorShapeFrom(of_ffm), Ffm(39, 4));
  EXPECT_EQ(Ffm(39, 4).width(), 156u);
  EXPECT_FALSE(SameKind(Ffm(39, 4), Ffm(40, 4)));
  EXPECT_EQ(KindText(Ffm(39, 4)), "ffm with 4 factors for each of 39 fields");
  io::StateFields none;
  AddFactorShape({}, none);
  EXPECT_TRUE(none.all().empty());
  EXPECT_EQ(FactorShapeFrom(none)->kind, ModelKind::kLr);
}

double ValueOf(const CsrBatch& batch, uint32_t i) {
  return batch.values.empty() ? 1.0 : double{batch.values[i]};
}

// All pairs of a row, in double precision.
double PairSum(const CsrBatch& batch, size_t r, const std::vector<float>& factors, size_t width) {
  double sum = 0;
  for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
    for (uint32_t j = i + 1; j < batch.row_begin[r + 1]; ++j) {
      double product = 0;
      for (size_t f = 0; f < width; ++f) {
        product +=
            double{factors[batch.cols[i] * width + f]} * double{factors[batch.cols[j] * width + f]};
      }
      sum += product * ValueOf(batch, i) * ValueOf(batch, j);
    }
  }
  return sum;
}

FactorRows RowsOf(const CsrBatch& batch, const std::vector<float>& factors, size_t width) {
  return {.row_begin = batch.row_begin,
          .features = batch.cols.data(),
          .values = batch.values.empty() ? nullptr : batch.values.data(),
          .factors = factors.data(),
          .width = width};
}

std::vector<const FactorKernels*> KernelsHere() {
  std::vector<const FactorKernels*> all = {&FactorKernelsFor(CpuLevel::kPlain)};
  if (DetectCpuLevel() >= CpuLevel::kAvx2) all.push_back(&FactorKernelsFor(CpuLevel::kAvx2));
  return all;
}

// No huge rows: all pairs are too many.
bool IsSmall(const CsrBatch& batch) { return batch.nnz() < 15000; }

std::vector<float> RandomFactors(size_t keys, size_t width, uint64_t seed) {
  Random random(seed);
  std::vector<float> factors(keys * width);
  for (float& v : factors) v = 0.3f * Normalish(random);
  return factors;
}

TEST(FactorKernels, MarginsEqualAllPairsOnRandomShapes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    if (!IsSmall(p.batch)) continue;
    const size_t width = 4 * (1 + seed % 5);
    const std::vector<float> factors = RandomFactors(p.batch.keys.size(), width, seed);
    for (const FactorKernels* kernels : KernelsHere()) {
      SCOPED_TRACE(kernels->instructions);
      std::vector<float> margins(p.batch.rows(), 1.0f);
      FactorSums sums;
      kernels->margins(RowsOf(p.batch, factors, width), sums, margins);
      for (size_t r = 0; r < margins.size(); ++r) {
        const double expected = 1 + PairSum(p.batch, r, factors, width);
        ASSERT_NEAR(margins[r], expected, 2e-4 + 1e-4 * std::abs(expected)) << r;
      }
    }
  }
}

TEST(FactorKernels, ScoringInPiecesEqualsTheWholeBatch) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = RandomProblem(seed);
    constexpr size_t kWidth = 64;  // about a thousand entries at a time
    const std::vector<float> factors = RandomFactors(p.batch.keys.size(), kWidth, seed);
    std::vector<float> whole(p.batch.rows()), pieces(p.batch.rows());
    FactorSums sums;
    FactorKernelsFor().margins(RowsOf(p.batch, factors, kWidth), sums, whole);
    AddFactorMargins(
        p.batch, kWidth,
        [&](size_t first, size_t count, float* out) {
          for (size_t i = 0; i < count; ++i) {
            std::copy_n(&factors[p.batch.cols[first + i] * kWidth], kWidth, out + i * kWidth);
          }
        },
        pieces);
    EXPECT_EQ(whole, pieces);
  }
}

// The loss of the batch in double precision: weights, intercept and factors.
double Loss(const Problem& p, const std::vector<float>& factors, size_t width) {
  double loss = 0;
  for (size_t r = 0; r < p.batch.rows(); ++r) {
    double margin = 0.3 + PairSum(p.batch, r, factors, width);
    for (uint32_t i = p.batch.row_begin[r]; i < p.batch.row_begin[r + 1]; ++i) {
      margin += ValueOf(p.batch, i) * double{p.weights[p.batch.cols[i]]};
    }
    const double m = p.batch.labels[r] > 0 ? margin : -margin;
    loss += std::max(-m, 0.0) + std::log1p(std::exp(-std::abs(m)));
  }
  return loss;
}

TEST(FactorKernels, GradientsEqualFiniteDifferencesOfTheLoss) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Problem p;
    p.batch.Clear();
    const size_t keys = 1 + random.Below(6), width = 4 * (1 + seed % 4);
    for (size_t r = 0; r < 5; ++r) {
      for (size_t n = random.Below(4); n > 0; --n) {  // a row may have a key twice, or none
        p.batch.cols.push_back(static_cast<uint32_t>(random.Below(keys)));
        if (seed % 2) p.batch.values.push_back(Normalish(random));
      }
      p.batch.row_begin.push_back(static_cast<uint32_t>(p.batch.cols.size()));
      p.batch.labels.push_back(static_cast<float>(random.Below(2)));
    }
    p.batch.keys.resize(keys);
    p.batch.compacted = true;
    for (size_t k = 0; k < keys; ++k) p.weights.push_back(Normalish(random));
    std::vector<float> factors = RandomFactors(keys, width, seed + 100);
    for (const FactorKernels* kernels : KernelsHere()) {
      SCOPED_TRACE(kernels->instructions);
      std::vector<float> margins(p.batch.rows()), residuals(p.batch.rows());
      PlainKernels().margins(p.batch, p.weights, margins);
      for (float& margin : margins) margin += 0.3f;
      FactorSums sums;
      kernels->margins(RowsOf(p.batch, factors, width), sums, margins);
      PlainKernels().loss_and_residuals(margins, p.batch.labels, {}, residuals);
      std::vector<float> gradient(factors.size(), NAN), linear(keys);
      kernels->gradient(RowsOf(p.batch, factors, width), residuals, sums, gradient);
      PlainKernels().gradient(p.batch, residuals, linear);
      const auto check = [&](float& parameter, float found) {
        constexpr float kStep = 1e-3f;
        const float before = parameter;
        parameter = before + kStep;
        const double up = parameter, above = Loss(p, factors, width);
        parameter = before - kStep;
        const double down = parameter, below = Loss(p, factors, width);
        parameter = before;
        ASSERT_NEAR(found, (above - below) / (up - down), 2e-4);
      };
      for (size_t i = 0; i < factors.size(); ++i) check(factors[i], gradient[i]);
      for (size_t k = 0; k < keys; ++k) check(p.weights[k], linear[k]);
    }
  }
}

}  // namespace
}  // namespace millrace::sparse
