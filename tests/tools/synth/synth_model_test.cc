// SPDX-License-Identifier: Apache-2.0
#include "tools/synth/synth_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "tools/synth/bayes_score.h"
#include "tools/synth/portable_math.h"

namespace millrace::synth {
namespace {

TEST(FieldCardinalities, SumExactlyAndAreNeverEmpty) {
  for (const uint64_t fields : {1ul, 2ul, 39ul, 40ul, 100ul}) {
    for (const uint64_t extra :
         {0ul, 1ul, 7ul, 1000ul, 123'456ul, 33'762'539ul, 5'000'000'000ul, 1ul << 60}) {
      SCOPED_TRACE(testing::Message() << fields << " " << extra);
      const std::vector<uint64_t> sizes = FieldCardinalities(fields + extra, fields);
      ASSERT_EQ(sizes.size(), fields);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}), fields + extra);
      for (const uint64_t size : sizes) EXPECT_GE(size, 1u);
    }
  }
}

TEST(FieldCardinalities, SmallModelsStillHaveSeveralValuesInMostFields) {
  int with_choice = 0;
  for (const uint64_t size : FieldCardinalities(1000, 39)) with_choice += size > 1 ? 1 : 0;
  EXPECT_GE(with_choice, 35);
}

TEST(SynthModel, EveryKeyIsInItsField) {
  for (const uint64_t num_features : {39ul, 1000ul, 33'762'578ul, 1ul << 62}) {
    SCOPED_TRACE(num_features);
    const SynthModel model({.num_features = num_features});
    SynthRow row;
    for (uint64_t i = 0; i < 2000; ++i) {
      model.Draw(Part::kTrain, i, row);
      uint64_t begin = 0;
      for (size_t f = 0; f < 39; ++f) {
        ASSERT_GE(row.keys[f], begin);
        begin += model.cardinalities()[f];
        ASSERT_LT(row.keys[f], begin);
      }
    }
  }
}

TEST(SynthModel, RowsDoNotDependOnWhatWasDrawnBefore) {
  const SynthModel model({.num_features = 100'000});
  SynthRow alone, after;
  model.Draw(Part::kTrain, 77, alone);
  for (uint64_t i = 0; i < 77; ++i) model.Draw(Part::kTest, i, after);
  model.Draw(Part::kTrain, 77, after);
  EXPECT_EQ(alone.keys, after.keys);
  EXPECT_EQ(alone.margin, after.margin);
  EXPECT_EQ(alone.label, after.label);
}

TEST(SynthModel, PositivesAndLossMatchTheOptions) {
  for (const uint64_t seed : {1ul, 2ul, 3ul}) {
    SCOPED_TRACE(seed);
    const SynthModel model({.seed = seed, .positives = 0.1, .bayes_logloss = 0.25});
    SynthRow row;
    BayesScore score;
    for (uint64_t i = 0; i < 100'000; ++i) {
      model.Draw(Part::kTest, i, row);
      score.Add(row.margin, row.label);
    }
    EXPECT_NEAR(static_cast<double>(score.positives()) / 100'000, 0.1, 0.005);
    EXPECT_NEAR(score.LogLoss(), 0.25, 0.008);
  }
}

class SynthInteractions : public testing::TestWithParam<bool> {
 protected:
  SynthOptions Options() const {
    return {.num_features = 100'000, .interactions = 3, .field_factors = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SynthInteractions, testing::Bool());

TEST_P(SynthInteractions, LeaveKeysPositivesAndLossAsTheyAre) {
  const SynthModel linear({.num_features = 100'000}), model(Options());
  SynthRow plain, row;
  BayesScore score;
  for (uint64_t i = 0; i < 50'000; ++i) {
    linear.Draw(Part::kTest, i, plain);
    model.Draw(Part::kTest, i, row);
    ASSERT_EQ(plain.keys, row.keys);
    score.Add(row.margin, row.label);
  }
  EXPECT_NEAR(static_cast<double>(score.positives()) / 50'000, 0.25, 0.01);
  EXPECT_NEAR(score.LogLoss(), 0.444, 0.01);
}

// The linear margin is the best of all multiples of the linear part, and the rest of the margin has
// no correlation with it: better weights would not help.
TEST_P(SynthInteractions, ALinearModelHasAFloor) {
  const SynthModel model(Options());
  SynthRow row;
  const double scales[] = {1, 0.9, 1.1, 1, 1}, shifts[] = {0, 0, 0, -0.1, 0.1};
  double loss[5] = {}, best = 0, sum = 0, squares = 0, products = 0, means[2] = {};
  constexpr int kRows = 100'000;
  for (uint64_t i = 0; i < kRows; ++i) {
    model.Draw(Part::kTest, i, row);
    best += LogLoss(row.margin, row.label);
    for (int s = 0; s < 5; ++s) {
      // The expected loss has less noise than that of the label.
      const double margin = scales[s] * row.linear_margin + shifts[s], p = Sigmoid(row.margin);
      loss[s] += p * LogLoss(margin, true) + (1 - p) * LogLoss(margin, false);
    }
    // Of the interactions, up to a factor: the margin without its linear part.
    means[0] += row.linear_margin;
    means[1] += row.margin;
    sum += row.linear_margin * row.linear_margin;
    squares += row.margin * row.margin;
    products += row.linear_margin * row.margin;
  }
  for (int s = 1; s < 5; ++s) EXPECT_LT(loss[0], loss[s]) << s;
  EXPECT_GT(loss[0], best + 0.03 * kRows);
  EXPECT_LT(loss[0], 0.54 * kRows) << "the linear part has signal, too";
  const double x = sum - means[0] * means[0] / kRows, y = squares - means[1] * means[1] / kRows;
  const double xy = products - means[0] * means[1] / kRows;
  EXPECT_NEAR(xy * xy / (x * y), 0.5, 0.05) << "half of the margin's variance is linear";
}

TEST_P(SynthInteractions, RowsDoNotDependOnWhatWasDrawnBefore) {
  const SynthModel model(Options());
  SynthRow alone, after;
  model.Draw(Part::kTrain, 77, alone);
  for (uint64_t i = 0; i < 77; ++i) model.Draw(Part::kTest, i, after);
  model.Draw(Part::kTrain, 77, after);
  EXPECT_EQ(alone.keys, after.keys);
  EXPECT_EQ(alone.margin, after.margin);
  EXPECT_EQ(alone.linear_margin, after.linear_margin);
}

TEST(SynthModel, OneKeyPerFieldIsAllowed) {
  const SynthModel model({.num_features = 1, .fields = 1});
  SynthRow row;
  int positives = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    model.Draw(Part::kTrain, i, row);
    ASSERT_EQ(row.keys, std::vector<uint64_t>{0});
    positives += row.label ? 1 : 0;
  }
  EXPECT_NEAR(positives, 2500, 200);
}

TEST(SynthOptions, ImpossibleOnesAreRefused) {
  EXPECT_TRUE(SynthOptions{}.Validate().ok());
  EXPECT_FALSE((SynthOptions{.num_features = 38}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.num_features = ~uint64_t{0}}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.fields = 0}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.zipf = -1}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.zipf = std::numeric_limits<double>::quiet_NaN()}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.positives = 0}).Validate().ok());
  EXPECT_FALSE((SynthOptions{.bayes_logloss = 5}).Validate().ok());
  EXPECT_TRUE((SynthOptions{.fields = 8, .interactions = 64}).Validate().ok());
  EXPECT_EQ((SynthOptions{.fields = 7, .interactions = 4}).Validate().message(),
            "--interactions=4: expected --fields of 8 or more, found 7");
  EXPECT_EQ((SynthOptions{.interactions = 65}).Validate().message(),
            "--interactions=65: expected at most 64");
}

}  // namespace
}  // namespace millrace::synth
