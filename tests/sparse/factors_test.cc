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

// All pairs of a row, in double precision. A batch with fields is one of an ffm with `fields`
// fields.
double PairSum(const CsrBatch& batch, size_t r, const std::vector<float>& factors, size_t width,
               size_t fields = 1) {
  double sum = 0;
  const size_t k = width / fields;
  const auto factor = [&](uint32_t i, uint32_t partner, size_t f) {
    const size_t field = batch.fields.empty() ? 0 : batch.fields[partner];
    return double{factors[batch.cols[i] * width + field * k + f]};
  };
  for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
    for (uint32_t j = i + 1; j < batch.row_begin[r + 1]; ++j) {
      double product = 0;
      for (size_t f = 0; f < k; ++f) product += factor(i, j, f) * factor(j, i, f);
      sum += product * ValueOf(batch, i) * ValueOf(batch, j);
    }
  }
  return sum;
}

FactorRows RowsOf(const CsrBatch& batch, const std::vector<float>& factors, size_t width,
                  size_t fields = 1) {
  return {.row_begin = batch.row_begin,
          .features = batch.cols.data(),
          .values = batch.values.empty() ? nullptr : batch.values.data(),
          .factors = factors.data(),
          .width = width,
          .fields = batch.fields.empty() ? nullptr : batch.fields.data(),
          .num_fields = fields};
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
        p.batch, Fm(kWidth),
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
double Loss(const Problem& p, const std::vector<float>& factors, size_t width, size_t fields = 1) {
  double loss = 0;
  for (size_t r = 0; r < p.batch.rows(); ++r) {
    double margin = 0.3 + PairSum(p.batch, r, factors, width, fields);
    for (uint32_t i = p.batch.row_begin[r]; i < p.batch.row_begin[r + 1]; ++i) {
      margin += ValueOf(p.batch, i) * double{p.weights[p.batch.cols[i]]};
    }
    const double m = p.batch.labels[r] > 0 ? margin : -margin;
    loss += std::max(-m, 0.0) + std::log1p(std::exp(-std::abs(m)));
  }
  return loss;
}

// Few rows of few entries: a row may have a key twice, or none.
Problem SmallProblem(uint64_t seed, size_t keys) {
  Random random(seed);
  Problem p;
  p.batch.Clear();
  for (size_t r = 0; r < 5; ++r) {
    for (size_t n = random.Below(4); n > 0; --n) {
      p.batch.cols.push_back(static_cast<uint32_t>(random.Below(keys)));
      if (seed % 2) p.batch.values.push_back(Normalish(random));
    }
    p.batch.row_begin.push_back(static_cast<uint32_t>(p.batch.cols.size()));
    p.batch.labels.push_back(static_cast<float>(random.Below(2)));
  }
  p.batch.keys.resize(keys);
  p.batch.compacted = true;
  for (size_t k = 0; k < keys; ++k) p.weights.push_back(Normalish(random));
  return p;
}

// Every parameter's gradient, with the kernels of every instruction set.
void CheckGradients(Problem& p, std::vector<float> factors, size_t width, size_t fields = 1) {
  const size_t keys = p.batch.keys.size();
  for (const FactorKernels* kernels : KernelsHere()) {
    SCOPED_TRACE(kernels->instructions);
    std::vector<float> margins(p.batch.rows()), residuals(p.batch.rows());
    PlainKernels().margins(p.batch, p.weights, margins);
    for (float& margin : margins) margin += 0.3f;
    FactorSums sums;
    kernels->margins(RowsOf(p.batch, factors, width, fields), sums, margins);
    PlainKernels().loss_and_residuals(margins, p.batch.labels, {}, residuals);
    std::vector<float> gradient(factors.size(), NAN), linear(keys);
    kernels->gradient(RowsOf(p.batch, factors, width, fields), residuals, sums, gradient);
    PlainKernels().gradient(p.batch, residuals, linear);
    const auto check = [&](float& parameter, float found) {
      constexpr float kStep = 1e-3f;
      const float before = parameter;
      parameter = before + kStep;
      const double up = parameter, above = Loss(p, factors, width, fields);
      parameter = before - kStep;
      const double down = parameter, below = Loss(p, factors, width, fields);
      parameter = before;
      ASSERT_NEAR(found, (above - below) / (up - down), 2e-4);
    };
    for (size_t i = 0; i < factors.size(); ++i) check(factors[i], gradient[i]);
    for (size_t k = 0; k < keys; ++k) check(p.weights[k], linear[k]);
  }
}

TEST(FactorKernels, GradientsEqualFiniteDifferencesOfTheLoss) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const size_t keys = 1 + seed % 6, width = 4 * (1 + seed % 4);
    Problem p = SmallProblem(seed, keys);
    CheckGradients(p, RandomFactors(keys, width, seed + 100), width);
  }
}

// A field may have several entries of a row, or none.
void AddRandomFields(CsrBatch& batch, size_t fields, uint64_t seed) {
  Random random(seed);
  for (size_t i = 0; i < batch.nnz(); ++i) {
    batch.fields.push_back(static_cast<uint16_t>(random.Below(fields)));
  }
}

// One entry for each field, from the first one or, with a number of its own, from a later one.
CsrBatch OneHotRows(size_t rows, size_t fields, size_t skipped, size_t keys, uint64_t seed) {
  Random random(seed);
  CsrBatch batch;
  batch.Clear();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t field = skipped; field < fields; ++field) {
      batch.cols.push_back(static_cast<uint32_t>(random.Below(keys)));
      batch.fields.push_back(static_cast<uint16_t>(field));
      if (seed % 3 == 2) batch.values.push_back(Normalish(random));
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back(static_cast<float>(random.Below(2)));
  }
  batch.keys.resize(keys);
  batch.compacted = true;
  return batch;
}

void CheckFieldMargins(const CsrBatch& batch, size_t fields, size_t k, uint64_t seed) {
  const size_t width = fields * k;
  const std::vector<float> factors = RandomFactors(batch.keys.size(), width, seed);
  for (const FactorKernels* kernels : KernelsHere()) {
    SCOPED_TRACE(kernels->instructions);
    std::vector<float> margins(batch.rows(), 1.0f);
    FactorSums sums;
    kernels->margins(RowsOf(batch, factors, width, fields), sums, margins);
    for (size_t r = 0; r < margins.size(); ++r) {
      const double expected = 1 + PairSum(batch, r, factors, width, fields);
      ASSERT_NEAR(margins[r], expected, 2e-4 + 1e-4 * std::abs(expected)) << r;
    }
  }
}

TEST(FieldKernels, MarginsEqualAllPairsOnRandomShapes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Problem p = RandomProblem(seed);
    if (!IsSmall(p.batch)) continue;
    const size_t fields = 1 + seed % 12;
    AddRandomFields(p.batch, fields, seed);
    CheckFieldMargins(p.batch, fields, 4 * (1 + seed % 3), seed);
  }
}

TEST(FieldKernels, MarginsOfRowsWithOneEntryForEachFieldEqualAllPairs) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const size_t fields = 1 + seed % 20, skipped = seed % 4 == 1 ? fields / 2 : 0;
    CheckFieldMargins(OneHotRows(7, fields, skipped, 30, seed), fields, 4 * (1 + seed % 2), seed);
  }
}

TEST(FieldKernels, GradientsEqualFiniteDifferencesOfTheLoss) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const size_t keys = 1 + seed % 6, fields = 1 + seed % 5, k = 4 * (1 + seed % 2);
    Problem p = SmallProblem(seed, keys);
    AddRandomFields(p.batch, fields, seed);
    CheckGradients(p, RandomFactors(keys, fields * k, seed + 100), fields * k, fields);
    Problem one_hot;
    one_hot.batch = OneHotRows(3, fields, seed % 2, keys, seed);
    one_hot.weights.assign(keys, 0.1f);
    CheckGradients(one_hot, RandomFactors(keys, fields * k, seed + 100), fields * k, fields);
  }
}

TEST(FieldKernels, ScoringInPiecesEqualsTheWholeBatch) {
  constexpr uint32_t kFields = 39;
  const CsrBatch batch = OneHotRows(100, kFields, 0, 500, 1);
  const FactorShape shape = Ffm(kFields, 4);
  const std::vector<float> factors = RandomFactors(500, shape.width(), 1);
  std::vector<float> whole(batch.rows()), pieces(batch.rows());
  FactorSums sums;
  FactorKernelsFor().margins(RowsOf(batch, factors, shape.width(), kFields), sums, whole);
  AddFactorMargins(
      batch, shape,
      [&](size_t first, size_t count, float* out) {
        for (size_t i = 0; i < count; ++i) {
          std::copy_n(&factors[batch.cols[first + i] * shape.width()], shape.width(),
                      out + i * shape.width());
        }
      },
      pieces);
  EXPECT_EQ(whole, pieces);
}

}  // namespace
}  // namespace millrace::sparse
