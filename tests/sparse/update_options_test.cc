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

TEST(UpdateOptions, ScalesAndCentersReadBack) {
  UpdateOptions options;
  options.normalize = true;
  options.centers = {{3, 0.1f}, {17, -2e-7f}, {uint64_t{1} << 60, 1e9f}};
  io::StateFields fields;
  AddUpdateOptions(options, fields);
  const auto read = UpdateOptionsFrom(fields);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read->normalize);
  ASSERT_EQ(read->centers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->centers[i].key, options.centers[i].key);
    EXPECT_EQ(read->centers[i].center, options.centers[i].center);
  }
}

TEST(UpdateOptions, MalformedCentersAreCorrupt) {
  io::StateFields good;
  AddUpdateOptions({}, good);
  for (const char* text :
       {"3", "3:", ":1", "3:x", "3:1 2:1", "3:1 3:1", "3:inf", "-1:2", "3:1;4:1"}) {
    SCOPED_TRACE(text);
    io::StateFields fields;
    for (const auto& [name, value] : good.all()) {
      fields.Add(name, name == "option.centers" ? text : value);
    }
    EXPECT_EQ(UpdateOptionsFrom(fields).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace millrace::sparse
