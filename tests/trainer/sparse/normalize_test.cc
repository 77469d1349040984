// SPDX-License-Identifier: Apache-2.0
// Steps on normalised values, in all stores and on both paths, against a naive twin in float64.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>

#include "io/base/random.h"
#include "io/batch/key_compactor.h"
#include "sparse/local_store.h"
#include "sparse/value_scale.h"
#include "trainer/sparse/batch_learner.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using sparse::LocalStore;
using sparse::Rule;
using sparse::UpdateOptions;

constexpr uint64_t kFeatures = 60;

// Columns in units from 1e-5 to 1e6, some of them only ones; later batches have larger values.
CsrBatch MakeBatch(uint64_t seed) {
  Random random(seed);
  CsrBatch batch;
  batch.row_begin.assign(1, 0);
  for (int r = 0; r < 40; ++r) {
    for (int i = 0; i < 8; ++i) {
      const auto col = static_cast<uint32_t>(random.Below(kFeatures));
      batch.cols.push_back(col);
      const double unit = std::pow(10, static_cast<double>(col % 12) - 5);
      const double value = (random.Uniform() - 0.3) * unit * (1 + static_cast<double>(seed % 7));
      batch.values.push_back(col % 5 == 0 ? 1.0f : static_cast<float>(value));
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back(random.Below(3) == 0 ? 1.0f : 0.0f);
  }
  return batch;
}

CsrBatch Compacted(CsrBatch batch) {
  io::KeyCompactor(kFeatures).Compact(batch.cols, batch.keys);
  batch.compacted = true;
  return batch;
}

// A naive model in float64, without an intercept.
class Twin {
 public:
  explicit Twin(const UpdateOptions& options) : options_(options) {}

  std::vector<double> Learn(const CsrBatch& batch) {
    ++t_;
    std::map<uint32_t, double> largest;
    for (size_t i = 0; i < batch.nnz(); ++i) {
      double& value = largest[batch.cols[i]];
      value = std::max(value, std::abs(static_cast<double>(batch.values[i])));
    }
    for (const auto& [col, value] : largest) {
      Feature& f = features_[col];
      const double scale = std::exp2(std::ceil(std::log2(value)));
      if (f.scale > 0 && scale == 2 * f.scale) {
        f.w *= 2;
        if (options_.rule == Rule::kFtrl) f.z *= 2;
      }
      f.scale = std::max(f.scale, scale);
    }
    std::vector<double> margins(batch.rows());
    std::map<uint32_t, double> gradient;
    const double mean = GradientScaleOf(options_.rule) == sparse::GradientScale::kMean ? 40.0 : 1.0;
    for (size_t r = 0; r < batch.rows(); ++r) {
      const auto normalized = [&](uint32_t i) {
        return static_cast<double>(batch.values[i]) / features_[batch.cols[i]].scale;
      };
      for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
        margins[r] += normalized(i) * features_[batch.cols[i]].w;
      }
      const double residual =
          1 / (1 + std::exp(-margins[r])) - static_cast<double>(batch.labels[r]);
      for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
        gradient[batch.cols[i]] += residual / mean * normalized(i);
      }
    }
    for (const auto& [col, g] : gradient) Step(g, features_[col]);
    return margins;
  }

 private:
  struct Feature {
    double scale = 0, w = 0, z = 0, n = 0;
  };

  void Step(double g, Feature& f) const {
    const double rate = options_.Rate();
    switch (options_.rule) {
      case Rule::kSgd:
        f.w -= rate * g;
        break;
      case Rule::kAdaGrad:
        f.n += g * g;
        f.w -= rate * g / std::sqrt(f.n + options_.adagrad_epsilon);
        break;
      case Rule::kFtrl:
        f.z += g - (std::sqrt(f.n + g * g) - std::sqrt(f.n)) / rate * f.w;
        f.n += g * g;
        f.w = -f.z / ((options_.ftrl_beta + std::sqrt(f.n)) / rate);
        break;
      case Rule::kAdam: {
        f.z += 0.1 * (g - f.z);
        f.n += 0.001 * (g * g - f.n);
        const double correction = std::sqrt(1 - std::pow(0.999, t_)) / (1 - std::pow(0.9, t_));
        f.w -= rate * correction * f.z / (std::sqrt(f.n) + options_.adam_epsilon);
        break;
      }
    }
  }

  UpdateOptions options_;
  double t_ = 0;
  std::map<uint32_t, Feature> features_;
};

struct Path {
  const char* name;
  uint64_t num_features;
  bool direct;
};
constexpr Path kPaths[] = {{"dense-index table, direct", kFeatures, true},
                           {"dense-index table, store", kFeatures, false},
                           {"hashed-key table", 0, false}};

// A store and its learner.
struct Model {
  Model(const Path& path, const UpdateOptions& options, bool intercept = false)
      : store(std::move(*LocalStore::Create(
            {.num_features = path.num_features, .intercept = intercept}, options))),
        learner(MakeLocalLearner(*store, sparse::PlainKernels(), path.direct)) {}

  CsrBatch Form(const CsrBatch& batch) const {
    return learner->wants_compact_batches() ? Compacted(batch) : batch;
  }
  std::vector<float> Margins(const CsrBatch& batch) {
    const auto margins = learner->Score(Form(batch));
    EXPECT_TRUE(margins.ok());
    return {margins->begin(), margins->end()};
  }
  double Learn(const CsrBatch& batch) {
    const Result<double> loss = learner->Learn(Form(batch));
    EXPECT_TRUE(loss.ok());
    return *loss;
  }

  std::unique_ptr<LocalStore> store;
  std::unique_ptr<BatchLearner> learner;
};

UpdateOptions Options(Rule rule) {
  return {.rule = rule, .rate = rule == Rule::kSgd ? 0.5 : 0.1, .normalize = true};
}

double LossOf(const std::vector<double>& margins, const CsrBatch& batch) {
  double loss = 0;
  for (size_t r = 0; r < margins.size(); ++r) {
    loss += std::log1p(std::exp(batch.labels[r] > 0 ? -margins[r] : margins[r]));
  }
  return loss;
}

TEST(Normalize, EveryRulePathAndTableFollowsTheTwin) {
  for (const Rule rule : sparse::kRules) {
    for (const Path& path : kPaths) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + ", " + path.name);
      Model model(path, Options(rule));
      Twin twin(Options(rule));
      for (uint64_t step = 0; step < 60; ++step) {
        const CsrBatch batch = MakeBatch(step);
        const double expected = LossOf(twin.Learn(batch), batch);
        ASSERT_NEAR(model.Learn(batch), expected, 1e-3 * expected) << "step " << step;
      }
    }
  }
}

// Powers of two only change exponents, on all paths.
TEST(Normalize, UnitsOfColumnsDoNotMatterBitForBit) {
  for (const Rule rule : sparse::kRules) {
    for (const Path& path : kPaths) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + ", " + path.name);
      Model model(path, Options(rule), true), other(path, Options(rule), true);
      for (uint64_t step = 0; step < 40; ++step) {
        const CsrBatch batch = MakeBatch(step);
        CsrBatch scaled = batch;
        for (size_t i = 0; i < batch.nnz(); ++i) {
          scaled.values[i] = std::ldexp(batch.values[i], static_cast<int>(batch.cols[i] % 41) - 20);
        }
        ASSERT_EQ(model.Learn(batch), other.Learn(scaled)) << "step " << step;
        ASSERT_EQ(model.Margins(batch), other.Margins(scaled)) << "step " << step;
      }
    }
  }
}

TEST(Normalize, OnesGiveTheBitsOfAModelThatDoesNotNormalize) {
  for (const Rule rule : sparse::kRules) {
    for (const Path& path : kPaths) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + ", " + path.name);
      UpdateOptions plain = Options(rule);
      plain.normalize = false;
      Model normalized(path, Options(rule), true), other(path, plain, true);
      for (uint64_t step = 0; step < 20; ++step) {
        CsrBatch batch = MakeBatch(step);
        batch.values.clear();
        ASSERT_EQ(normalized.Learn(batch), other.Learn(batch));
        ASSERT_EQ(normalized.Margins(batch), other.Margins(batch));
      }
    }
  }
}

TEST(Normalize, StateRoundTripsExactlyIntoEveryTable) {
  for (const Rule rule : sparse::kRules) {
    for (const Path& from : kPaths) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + ", " + from.name);
      Model model(from, Options(rule), true);
      for (uint64_t step = 0; step < 20; ++step) model.Learn(MakeBatch(step));
      Model copy(from, Options(rule), true), other(kPaths[2], Options(rule), true);
      model.store->ForEach([&](uint64_t key, std::span<const float> state) {
        EXPECT_EQ(state.size(), model.store->slot_floats());
        EXPECT_TRUE(copy.store->Load(key, state).ok());
        EXPECT_TRUE(other.store->Load(key, state).ok());
      });
      copy.store->set_steps(model.store->steps());
      other.store->set_steps(model.store->steps());
      for (uint64_t step = 20; step < 40; ++step) {
        const double loss = model.Learn(MakeBatch(step));
        ASSERT_EQ(copy.Learn(MakeBatch(step)), loss);
        ASSERT_NEAR(other.Learn(MakeBatch(step)), loss, 1e-4 * loss);
      }
    }
  }
}

// A warm start has weights of raw values and no scales.
TEST(Normalize, LoadedWeightsStayUntilTheirFirstStepWhateverTheUnits) {
  for (const Rule rule : sparse::kRules) {
    for (const Path& path : kPaths) {
      SCOPED_TRACE(std::string(sparse::RuleName(rule)) + ", " + path.name);
      UpdateOptions options = Options(rule);
      options.rate = 1e-6;  // a step changes nothing that the test can see
      Model model(path, options);
      const CsrBatch batch = MakeBatch(3);
      std::vector<double> expected(batch.rows());
      for (uint64_t col = 0; col < kFeatures; ++col) {
        ASSERT_TRUE(
            model.store
                ->LoadWeight(
                    col, static_cast<float>(1e-3 * std::pow(10, 5 - static_cast<double>(col % 12))))
                .ok());
      }
      const std::vector<float> before = model.Margins(batch);
      model.Learn(batch);
      const std::vector<float> after = model.Margins(batch);
      for (size_t r = 0; r < batch.rows(); ++r)
        ASSERT_NEAR(after[r], before[r], 1e-3 * (1 + std::abs(before[r])));
    }
  }
}

TEST(Normalize, AScaleThatIsNoPowerOfTwoIsRefused) {
  Model model(kPaths[0], Options(Rule::kAdaGrad));
  EXPECT_TRUE(model.store->Load(1, std::vector<float>{0.5f, 1, 4}).ok());
  const Status status = model.store->Load(1, std::vector<float>{0.5f, 1, 3});
  EXPECT_NE(status.message().find("expected a power of two as the scale"), std::string::npos)
      << status.message();
  EXPECT_FALSE(model.store->Load(1, std::vector<float>{0.5f, 1}).ok());
}

TEST(ValueScale, IsTheSmallestPowerOfTwoThatNoValueExceeds) {
  using sparse::InverseScale, sparse::ScaleFor, sparse::ScaleValue;
  EXPECT_EQ(ScaleValue(ScaleFor(0)), 0);
  EXPECT_EQ(ScaleValue(ScaleFor(1)), 1);
  EXPECT_EQ(ScaleValue(ScaleFor(-1.001f)), 2);
  EXPECT_EQ(ScaleValue(ScaleFor(0.3f)), 0.5f);
  EXPECT_EQ(ScaleValue(ScaleFor(1e-44f)), std::exp2(-100.0f)) << "the range is limited";
  EXPECT_EQ(ScaleValue(ScaleFor(3e38f)), std::exp2(100.0f));
  for (const float x : {1e-9f, 0.7f, 3.0f, 4.0f, 1e9f}) {
    EXPECT_EQ(ScaleValue(ScaleFor(x)) * InverseScale(ScaleFor(x)), 1);
  }
  EXPECT_EQ(InverseScale(sparse::kNoScale), 1);
}

}  // namespace
}  // namespace millrace::trainer
