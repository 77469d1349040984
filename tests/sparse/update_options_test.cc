// SPDX-License-Identifier: Apache-2.0
#include "sparse/update_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

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

TEST(UpdateOptions, KeyGroupsReadBack) {
  UpdateOptions options;
  io::StateFields without, fields;
  AddUpdateOptions(options, without);
  EXPECT_FALSE(without.Text("option.key_groups").ok());
  options.key_groups = {.groups = {{.rate = 0.1, .l1 = 2, .l2 = 1e-7}, {.rate = 3}},
                        .ranges = {{7, 2}, {7, 1}, {uint64_t{1} << 60, 0}}};
  AddUpdateOptions(options, fields);
  const auto read = UpdateOptionsFrom(fields);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->key_groups.groups, options.key_groups.groups);
  EXPECT_EQ(read->key_groups.RangesText(), options.key_groups.RangesText());
  EXPECT_EQ(read->key_groups.RangesText(), "7:2 7:1 1152921504606846976:0");
  GroupCursor cursor(read->key_groups.ranges);
  EXPECT_EQ(cursor.Of(6), 0u);
  EXPECT_EQ(cursor.Of(7), 1u);  // the last range of a key
  EXPECT_EQ(cursor.Of(uint64_t{1} << 60), 0u);
  EXPECT_EQ(cursor.Of(8), 1u);
}

TEST(UpdateOptions, MalformedKeyGroupsAreCorrupt) {
  for (const auto& [groups, ranges] :
       std::vector<std::pair<const char*, const char*>>{{"1:0", "0:1"},
                                                        {"1:0:0:0", "0:1"},
                                                        {"1:0:0 ", "0:1"},
                                                        {"1:0:0", "0"},
                                                        {"1:0:0", "-1:1"},
                                                        {"1:0:0", "0:2"},
                                                        {"1:0:0", "5:1 4:1"},
                                                        {"x:0:0", "0:1"},
                                                        {"1:0:0", "0:1;5:1"}}) {
    SCOPED_TRACE(std::string(groups) + ", " + ranges);
    EXPECT_FALSE(KeyGroupsFrom(groups, ranges).ok());
  }
  EXPECT_TRUE(KeyGroupsFrom("1:0:0", "0:1").ok());
  const auto with = [](KeyGroup group) {
    return UpdateOptions{.rule = Rule::kSgd, .key_groups = {.groups = {group}, .ranges = {{0, 1}}}}
        .Validate();
  };
  EXPECT_TRUE(with({}).ok());
  EXPECT_FALSE(with({.rate = 0}).ok());
  EXPECT_FALSE(with({.l1 = 1}).ok()) << "not for SGD";
  EXPECT_FALSE(with({.l2 = -1}).ok());
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
