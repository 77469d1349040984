// SPDX-License-Identifier: Apache-2.0
#include "tools/python/learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "io/base/random.h"
#include "io/batch/csr_batch.h"

namespace millrace::python {
namespace {

// Column 0 says the label nine times of ten; the others are noise.
struct Data {
  std::vector<int32_t> row_begin = {0};
  std::vector<int32_t> columns;
  std::vector<float> values;
  std::vector<uint8_t> labels;

  explicit Data(size_t rows) {
    Random random(3);
    for (size_t r = 0; r < rows; ++r) {
      const bool label = random.Below(2) == 1;
      if (label == (random.Below(10) > 0)) columns.push_back(0);
      columns.push_back(static_cast<int32_t>(1 + random.Below(9)));
      row_begin.push_back(static_cast<int32_t>(columns.size()));
      labels.push_back(label);
    }
    values.assign(columns.size(), 1.0f);
  }
  CsrRows View() const {
    return {.index = CsrIndex<int32_t>{row_begin, columns},
            .values = std::span<const float>(values),
            .num_columns = 10,
            .labels = labels,
            .weights = {}};
  }
};

Status GoOn(uint64_t, double) { return {}; }

std::unique_ptr<Learner> NewLearner(sparse::ModelShape shape, sparse::UpdateOptions update) {
  auto made = Learner::Create(shape, update);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

std::map<uint64_t, float> WeightsOf(const Learner& learner) {
  std::map<uint64_t, float> weights;
  learner.store().ForEach(
      [&](uint64_t key, std::span<const float> state) { weights[key] = state[0]; });
  return weights;
}

TEST(Learner, LearnsWithAnyRuleAndKind) {
  const Data data(4000);
  for (const sparse::Rule rule : sparse::kRules) {
    for (const bool hashed : {false, true}) {
      for (const uint32_t factors : {0u, 4u}) {
        sparse::ModelShape shape = {.num_features = hashed ? 0u : 10u};
        if (factors > 0) {
          shape.factors = {.kind = sparse::ModelKind::kFm, .factors = factors, .init = 0.01};
        }
        const auto learner = NewLearner(shape, {.rule = rule});
        const auto first = learner->Train(data.View(), {.epochs = 1}, GoOn);
        const auto later = learner->Train(data.View(), {.epochs = 3}, GoOn);
        ASSERT_TRUE(first.ok() && later.ok()) << later.status().message();
        EXPECT_LT(*later, *first);
        std::vector<double> margins(4000);
        ASSERT_TRUE(learner->Margins(data.View(), margins, GoOn).ok());
        size_t right = 0;
        for (size_t r = 0; r < margins.size(); ++r) right += (margins[r] > 0) == data.labels[r];
        EXPECT_GT(right, 3200u);
        EXPECT_EQ(learner->examples(), 16000u);
      }
    }
  }
}

TEST(Learner, CallsOfWholeBatchesAreOneCall) {
  const Data data(1000);
  const auto whole = NewLearner({.num_features = 10}, {});
  ASSERT_TRUE(whole->Train(data.View(), {.batch_size = 50}, GoOn).ok());
  const auto parts = NewLearner({.num_features = 10}, {});
  for (size_t first = 0; first < 1000; first += 250) {
    CsrRows rows = data.View();
    rows.index = CsrIndex<int32_t>{std::span(data.row_begin).subspan(first, 251), data.columns};
    rows.labels = rows.labels.subspan(first, 250);
    ASSERT_TRUE(parts->Train(rows, {.batch_size = 50}, GoOn).ok());
  }
  EXPECT_EQ(WeightsOf(*whole), WeightsOf(*parts));
}

TEST(Learner, AnErrorOfTheCallerEndsTheWorkAfterAStep) {
  const Data data(1000);
  const auto learner = NewLearner({.num_features = 10}, {});
  const auto result =
      learner->Train(data.View(), {.batch_size = 10}, [](uint64_t rows, double loss) -> Status {
        EXPECT_TRUE(std::isfinite(loss));
        return rows < 200 ? Status() : Cancelled("enough");
      });
  EXPECT_EQ(result.status().code(), Code::kCancelled);
  EXPECT_EQ(learner->store().steps(), 20u);
  EXPECT_EQ(learner->examples(), 200u);
}

TEST(Learner, WrongArgumentsAreErrors) {
  const Data data(10);
  const auto learner = NewLearner({.num_features = 11}, {});
  EXPECT_EQ(learner->Train(data.View(), {}, GoOn).status().message(),
            "columns: expected 11, found 10");
  const auto fits = NewLearner({.num_features = 10}, {});
  EXPECT_EQ(fits->Train(data.View(), {.batch_size = 0}, GoOn).status().message(),
            "batch_size: expected at least 1, found 0");
  CsrRows unlabeled = data.View();
  unlabeled.labels = {};
  EXPECT_FALSE(fits->Train(unlabeled, {}, GoOn).ok());
  EXPECT_FALSE(Learner::Create({.num_features = 10}, {.rate = -1}).ok());
}

TEST(ShuffledOrder, IsAPermutationOfItsSeedAndEpoch) {
  const auto order = ShuffledOrder(1000, 1, 0);
  EXPECT_EQ(order, ShuffledOrder(1000, 1, 0));
  EXPECT_NE(order, ShuffledOrder(1000, 1, 1));
  EXPECT_NE(order, ShuffledOrder(1000, 2, 0));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(sorted, all);
}

}  // namespace
}  // namespace millrace::python
