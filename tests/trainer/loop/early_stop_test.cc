// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/early_stop.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace millrace::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// After how many of the evaluations the run ends; 0: never.
size_t StopsAfter(EarlyStop& stop, double BinaryMetrics::*metric,
                  const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    BinaryMetrics metrics;
    metrics.*metric = values[i];
    stop.Update({.step = i + 1, .test = NamedValues(metrics)});
    if (stop.due()) return i + 1;
  }
  return 0;
}

size_t StopsAfter(const char* rule, double BinaryMetrics::*metric,
                  const std::vector<double>& values) {
  EarlyStop stop(*ParseEarlyStop(rule));
  return StopsAfter(stop, metric, values);
}

TEST(EarlyStop, EndsAfterAsManyEvaluationsWithoutABestAsAllowed) {
  EXPECT_EQ(StopsAfter("auc:3", &BinaryMetrics::auc, {.7, .8, .75, .79, .8, .9}), 5u);
  EXPECT_EQ(StopsAfter("auc:1", &BinaryMetrics::auc, {.7, .8, .75}), 3u);
  EXPECT_EQ(StopsAfter("auc:3", &BinaryMetrics::auc, {.7, .8, .75, .79, .81, .8, .8}), 0u);
}

TEST(EarlyStop, KnowsWhichMetricsShouldFall) {
  EXPECT_EQ(StopsAfter("logloss:2", &BinaryMetrics::logloss, {.5, .4, .3, .2, .1}), 0u);
  EXPECT_EQ(StopsAfter("logloss:2", &BinaryMetrics::logloss, {.5, .6, .7}), 3u);
  EXPECT_EQ(StopsAfter("ne:1", &BinaryMetrics::ne, {.9, .8, .85}), 3u);
  EXPECT_EQ(StopsAfter("f1:1", &BinaryMetrics::f1, {.1, .2, .3}), 0u);
}

TEST(EarlyStop, NanIsNoImprovement) {
  EXPECT_EQ(StopsAfter("auc:2", &BinaryMetrics::auc, {kNan, .5, kNan, kNan}), 4u);
  EXPECT_EQ(StopsAfter("auc:2", &BinaryMetrics::auc, {kNan, kNan}), 2u);
}

TEST(EarlyStop, NoRuleNeverEnds) {
  EXPECT_FALSE(ParseEarlyStop("")->enabled());
  EXPECT_EQ(StopsAfter("", &BinaryMetrics::auc, {.9, .8, .7, .6}), 0u);
}

TEST(EarlyStop, ContinuesFromAStoredState) {
  EarlyStop first(*ParseEarlyStop("auc:3"));
  EXPECT_EQ(StopsAfter(first, &BinaryMetrics::auc, {.7, .8, .75, .79}), 0u);
  EXPECT_EQ(first.state().best, .8);
  EXPECT_EQ(first.state().best_step, 2u);
  EarlyStop second(first.rule(), first.state());
  EXPECT_EQ(StopsAfter(second, &BinaryMetrics::auc, {.8}), 1u);
}

TEST(EarlyStop, KnowsTheBestEvaluation) {
  EarlyStop stop(*ParseSaveBest("logloss"));
  const auto update = [&](uint64_t step, double logloss) {
    return stop.Update({.step = step, .examples = 10 * step, .test = {{"logloss", logloss}}});
  };
  EXPECT_FALSE(update(1, kNan));
  EXPECT_TRUE(update(2, .5));
  EXPECT_FALSE(update(3, .5)) << "a tie is not better";
  EXPECT_TRUE(update(4, .25));
  for (uint64_t step = 5; step < 100; ++step) EXPECT_FALSE(update(step, .3));
  EXPECT_FALSE(stop.due()) << "a rule without patience never ends a run";
  EXPECT_EQ(stop.state().metric, "logloss");
  EXPECT_EQ(stop.state().best_step, 4u);
  EXPECT_EQ(stop.state().best_examples, 40u);
  EXPECT_EQ(stop.state().best_metrics, "{\"logloss\":0.25}");
}

TEST(EarlyStop, StateOfAnotherMetricIsDropped) {
  const EarlyStopState auc = {.metric = "auc", .best = .9, .best_step = 7};
  EarlyStop logloss(*ParseSaveBest("logloss"), auc);
  EXPECT_TRUE(logloss.Update({.step = 8, .test = {{"logloss", .5}}}));
  EXPECT_EQ(logloss.state().best_step, 8u);
  EXPECT_EQ(EarlyStop(*ParseSaveBest("auc"), auc).state().best_step, 7u);
  EXPECT_EQ(EarlyStop({}, auc).state().best_step, 7u) << "still the best of the earlier part";
}

TEST(EarlyStop, InvalidRuleNamesTheValidOnes) {
  EXPECT_EQ(ParseSaveBest("auc:3").status().message(),
            "save_best=auc:3: no metric \"auc:3\" to compare; write one of auc, logloss, ne, "
            "accuracy, f1, precision, recall");
  EXPECT_FALSE(ParseSaveBest("")->enabled());

  const auto message = [](const char* text) { return ParseEarlyStop(text).status().message(); };
  EXPECT_EQ(message("auk:3"),
            "early_stop=auk:3: no metric \"auk\" to stop on; write one of auc, logloss, ne, "
            "accuracy, f1, precision, recall");
  EXPECT_EQ(message("auc"),
            "early_stop=auc: after how many evaluations without a new best? Write auc:3");
  for (const char* text : {"auc:", "auc:0", "auc:-1", "auc:3x", "auc:1.5", "auc: 3"}) {
    EXPECT_NE(message(text).find("is no number of evaluations from 1 on; write auc:3"),
              std::string::npos)
        << text;
  }
  EXPECT_FALSE(ParseEarlyStop("calibration:3").ok());
}

}  // namespace
}  // namespace millrace::trainer
