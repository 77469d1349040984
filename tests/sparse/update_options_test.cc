// SPDX-License-Identifier: Apache-2.0
#include "sparse/update_options.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::sparse {
namespace {

TEST(UpdateOptions, DecayDividesByTheRootOfTheStep) {
  const UpdateOptions options{.rule = Rule::kSgd, .rate = 0.6, .decay = Decay::kInverseSqrt};
  EXPECT_FLOAT_EQ(SgdParamsAt(options, 1).rate, 0.6f);
  EXPECT_FLOAT_EQ(SgdParamsAt(options, 4).rate, 0.3f);
}

TEST(UpdateOptions, ContradictionsAreRefused) {
  EXPECT_TRUE(UpdateOptions{}.Validate().ok());
  EXPECT_FALSE((UpdateOptions{.rule = Rule::kSgd, .l1 = 1}).Validate().ok());
  EXPECT_FALSE((UpdateOptions{.rate = -1}).Validate().ok());
  EXPECT_FALSE((UpdateOptions{.rate = NAN}).Validate().ok());
  EXPECT_FALSE((UpdateOptions{.rule = Rule::kFtrl, .decay = Decay::kInverseSqrt}).Validate().ok());
  EXPECT_FALSE(RuleFromName("magic").ok());
  EXPECT_FALSE(DecayFromName("linear").ok());
  EXPECT_EQ(*RuleFromName("adagrad"), Rule::kAdaGrad);
}

}  // namespace
}  // namespace millrace::sparse
