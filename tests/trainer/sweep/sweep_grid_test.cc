// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/sweep_grid.h"

#include <gtest/gtest.h>

namespace millrace::trainer {
namespace {

using sparse::UpdateOptions;

std::string ErrorOf(std::string_view text, const UpdateOptions& base = {}) {
  const auto configs = ParseSweep(text, base, 1);
  EXPECT_FALSE(configs.ok());
  return configs.status().message();
}

TEST(SweepGrid, EachCombinationTheLastOptionFastest) {
  const auto configs = ParseSweep("learning_rate=auto,0.2;l1=0,1,2", {.ftrl_beta = 3}, 1);
  ASSERT_TRUE(configs.ok()) << configs.status().message();
  ASSERT_EQ(configs->size(), 6u);
  EXPECT_EQ((*configs)[0].update.rate, 0);
  EXPECT_EQ((*configs)[1].update.l1, 1);
  EXPECT_EQ((*configs)[3].update.rate, 0.2);
  EXPECT_EQ((*configs)[3].update.l1, 0);
  EXPECT_EQ((*configs)[5].update.ftrl_beta, 3);
  EXPECT_EQ((*configs)[5].options[0].second, "0.2");
}

TEST(SweepGrid, DrawsDependOnTheSeedAlone) {
  const std::string text = "random:8;learning_rate=0.01..1;l1=0..2;l2=0,1";
  const auto configs = ParseSweep(text, {}, 7), again = ParseSweep(text, {}, 7);
  const auto other = ParseSweep(text, {}, 8);
  ASSERT_TRUE(configs.ok() && again.ok() && other.ok()) << configs.status().message();
  ASSERT_EQ(configs->size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const UpdateOptions& update = (*configs)[i].update;
    EXPECT_EQ((*configs)[i].options, (*again)[i].options);
    EXPECT_NE((*configs)[i].options, (*other)[i].options);
    EXPECT_GE(update.rate, 0.01);
    EXPECT_LE(update.rate, 1);
    EXPECT_LE(update.l1, 2);
    EXPECT_TRUE(update.l2 == 0 || update.l2 == 1);
    EXPECT_LE((*configs)[i].options[0].second.size(), 8u);  // three digits
  }
}

TEST(SweepGrid, DefaultRangesAreThoseOfTheRule) {
  EXPECT_EQ(RandomRanges(sparse::Rule::kFtrl), "learning_rate=0.01..1;l1=0.01..10");
  EXPECT_EQ(RandomRanges(sparse::Rule::kAdam), "learning_rate=1e-04..0.01");
  const auto configs = ParseSweep("random:2", {.rule = sparse::Rule::kSgd}, 1);
  ASSERT_TRUE(configs.ok());
  EXPECT_EQ((*configs)[0].options.size(), 1u);
}

TEST(SweepGrid, ErrorsNameWhatWasFound) {
  EXPECT_EQ(ErrorOf("learning_rate=0.1"), "sweep: expected 2 to 64 configurations, found 1");
  EXPECT_EQ(ErrorOf("l1"), "sweep: expected OPTION=VALUE,VALUE,..., found 'l1'");
  EXPECT_NE(ErrorOf("rate=1,2").find("expected one of learning_rate, l1, l2"), std::string::npos);
  EXPECT_EQ(ErrorOf("l1=0,x"), "sweep: l1: expected a number of 0 or more, found 'x'");
  EXPECT_EQ(ErrorOf("l1=0,"), "sweep: l1: expected a number of 0 or more, found ''");
  EXPECT_EQ(ErrorOf("learning_rate=0,1"),
            "sweep: learning_rate: expected a number above 0, or auto, found '0'");
  EXPECT_EQ(ErrorOf("l1=0,1,0.0"), "sweep: l1: the value 0.0 comes twice");
  EXPECT_EQ(ErrorOf("l1=0,1;l1=2"), "sweep: l1 comes twice");
  EXPECT_EQ(ErrorOf("l1=0..1"), "sweep: l1: a range belongs to random:N, found '0..1'");
  EXPECT_EQ(ErrorOf("random:x"),
            "sweep: expected random:N with a number of configurations, found "
            "'random:x'");
  EXPECT_EQ(ErrorOf("random:65"), "sweep: expected 2 to 64 configurations, found 65");
  EXPECT_EQ(ErrorOf("random:3;l1=0,1"), "sweep: random:3: the values have only 2 combinations");
  EXPECT_NE(ErrorOf("random:3;l1=2..1").find("LOW below HIGH"), std::string::npos);
  EXPECT_NE(ErrorOf("learning_rate=1,1e7").find("learning_rate=1e7: "), std::string::npos);
  EXPECT_NE(
      ErrorOf("l1=0,1", {.rule = sparse::Rule::kSgd}).find("l1 belongs to the optimizer ftrl"),
      std::string::npos);
}

}  // namespace
}  // namespace millrace::trainer
