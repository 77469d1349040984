// SPDX-License-Identifier: Apache-2.0
#include "sparse/dense_options.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::sparse {
namespace {

TEST(DenseOptions, RateFallsByStepsOnly) {
  const DenseOptions o{.rate = 0.5, .decay_every = 10, .decay_factor = 0.1};
  EXPECT_DOUBLE_EQ(o.RateAt(1), 0.5);
  EXPECT_DOUBLE_EQ(o.RateAt(10), 0.5);
  EXPECT_DOUBLE_EQ(o.RateAt(11), 0.05);
  EXPECT_DOUBLE_EQ(o.RateAt(21), 0.005);
}

TEST(DenseOptions, RateFallsLinearlyToZero) {
  DenseOptions o{.rate = 0.5, .fall_steps = 10};
  EXPECT_DOUBLE_EQ(o.RateAt(1), 0.5);
  EXPECT_DOUBLE_EQ(o.RateAt(6), 0.25);
  EXPECT_DOUBLE_EQ(o.RateAt(10), 0.05);
  EXPECT_EQ(o.RateAt(11), 0);
  EXPECT_EQ(o.RateAt(1000), 0);
  o.decay_every = 5;
  EXPECT_DOUBLE_EQ(o.RateAt(6), 0.025) << "both together";
}

TEST(DenseOptions, TextRoundTripsExactly) {
  const DenseOptions o{.rule = DenseRule::kAdam,
                       .rate = 0.1 + 1e-17,
                       .momentum = 1.0 / 3,
                       .weight_decay = 5e-4,
                       .decay_every = 12345,
                       .decay_factor = 0.7,
                       .fall_steps = 54321,
                       .adam_beta1 = 0.8,
                       .adam_beta2 = 0.99,
                       .adam_epsilon = 1e-7};
  io::StateFields fields;
  o.AddTo(fields);
  const auto back = DenseOptions::From(*io::StateFields::Decode(fields.Encode()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, o);
  EXPECT_FALSE(DenseOptions::From({}).ok());
}

TEST(DenseOptions, ImpossibleNumbersAreErrors) {
  EXPECT_TRUE(DenseOptions{}.Validate().ok());
  EXPECT_FALSE((DenseOptions{.rate = NAN}).Validate().ok());
  EXPECT_FALSE((DenseOptions{.momentum = 1}).Validate().ok());
  EXPECT_FALSE((DenseOptions{.decay_factor = 0}).Validate().ok());
  EXPECT_FALSE((DenseOptions{.adam_epsilon = 0}).Validate().ok());
  EXPECT_FALSE(DenseRuleFromName("rmsprop").ok());
  EXPECT_EQ(*DenseRuleFromName("momentum"), DenseRule::kMomentum);
}

}  // namespace
}  // namespace millrace::sparse
