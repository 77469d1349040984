// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/run_warnings.h"

#include <gtest/gtest.h>

namespace millrace::trainer {
namespace {

constexpr double kNan = RunFacts::kUnknown;

// A run in which all is well: 20 % positives, entropy 0.50040.
RunFacts Well() {
  RunFacts facts;
  facts.mean_loss = 0.45;
  facts.label_weight = 1000;
  facts.positive_weight = 200;
  facts.last_row = MetricsRow{
      .step = 30,
      .epoch = 3,
      .loss = 0.40,
      .test = {
          {"recall", 0.5}, {"auc", 0.8}, {"logloss", 0.43}, {"ne", 0.86}, {"calibration", 1.02}}};
  facts.lowest_logloss = 0.43;
  facts.lowest_logloss_step = 30;
  facts.lowest_logloss_loss = 0.40;
  facts.checked_examples = 500;
  facts.unknown_keys = 0.4;
  facts.unknown_entries = 0.05;
  return facts;
}

void SetMetric(RunFacts& facts, std::string_view name, double value) {
  for (NamedValue& metric : facts.last_row->test) {
    if (metric.name == name) metric.value = value;
  }
}

struct Case {
  const char* name;
  void (*change)(RunFacts& facts);
  std::vector<std::string> expected;  // the beginnings of the warnings
};

const Case kCases[] = {
    {"all is well", [](RunFacts&) {}, {}},
    {"no test data", [](RunFacts& f) { f.last_row.reset(); }, {}},
    {"nothing is known", [](RunFacts& f) { f = RunFacts(); }, {}},

    {"NE above 1",
     [](RunFacts& f) { SetMetric(f, "ne", 56.2); },
     {"NE 56.2 is above 1: on the test data"}},
    {"NE 1", [](RunFacts& f) { SetMetric(f, "ne", 1); }, {}},

    {"progressive loss above the entropy",
     [](RunFacts& f) { f.mean_loss = 0.51; },
     {"the progressive loss 0.51000 is above 0.50040, which"}},
    {"progressive loss below it", [](RunFacts& f) { f.mean_loss = 0.5; }, {}},

    {"too low", [](RunFacts& f) { SetMetric(f, "calibration", 0.799); }, {"calibration 0.799 is"}},
    {"too high", [](RunFacts& f) { SetMetric(f, "calibration", 1.26); }, {"calibration 1.26 is"}},
    {"lower bound", [](RunFacts& f) { SetMetric(f, "calibration", 0.8); }, {}},
    {"upper bound", [](RunFacts& f) { SetMetric(f, "calibration", 1.25); }, {}},

    {"no positives",
     [](RunFacts& f) { f.positive_weight = 0; },
     {"the training labels are all negative: "}},
    {"no negatives",
     [](RunFacts& f) { f.positive_weight = f.label_weight; },
     {"the training labels are all positive: "}},
    {"no positives here",
     [](RunFacts& f) {
       f.positive_weight = 0;
       f.partial = true;
     },
     {"the labels of worker 0's part are all negative: "}},
    {"loss above the entropy of labels of a part",
     [](RunFacts& f) {
       f.mean_loss = 0.9;
       f.partial = true;
     },
     {"the progressive loss 0.90000 is above 0.50040, which always predicting the share of "
      "positives in worker 0's part ("}},
    {"no test positives",
     [](RunFacts& f) {
       for (const char* name : {"recall", "auc", "ne", "calibration"}) SetMetric(f, name, kNan);
     },
     {"the test labels are all negative: "}},
    {"no test negatives",
     [](RunFacts& f) {
       for (const char* name : {"auc", "ne", "calibration"}) SetMetric(f, name, kNan);
     },
     {"the test labels are all positive: "}},

    {"unknown keys",
     [](RunFacts& f) {
       f.unknown_keys = 0.875;
       f.unknown_entries = 0.5;
     },
     {"87.5 % of the keys and 50.0 % of the entries of the first 500 test examples have no"}},
    {"zero weights of L1",
     [](RunFacts& f) {
       f.unknown_entries = 0.5;
       f.prunes_weights = true;
     },
     {}},
    {"unknown keys with L1",
     [](RunFacts& f) {
       f.unknown_keys = f.unknown_entries = 1;
       f.prunes_weights = true;
     },
     {"100.0 % of the keys and 100.0 % of the entries"}},

    {"overfits",
     [](RunFacts& f) {
       f.lowest_logloss = 0.42;
       f.lowest_logloss_step = 10;
       f.lowest_logloss_loss = 0.44;
     },
     {"the model overfits: since step 10 the test logloss rose from 0.42000 to 0.43000, while the "
      "progressive loss fell from 0.44000 to 0.40000"}},
    {"rises in the first pass: the data changes",
     [](RunFacts& f) {
       f.lowest_logloss = 0.42;
       f.lowest_logloss_loss = 0.44;
       f.last_row->epoch = 1;
     },
     {}},
    {"both rise: no overfitting",
     [](RunFacts& f) {
       f.lowest_logloss = 0.42;
       f.lowest_logloss_loss = 0.39;
     },
     {}},
    {"rises by noise",
     [](RunFacts& f) {
       f.lowest_logloss = 0.4295;
       f.lowest_logloss_loss = 0.44;
     },
     {}},

    {"values that no scale fits",
     [](RunFacts& f) {
       f.values = 1000;
       f.huge_values = 2;
       f.value_limit = 1e30f;
       f.first_huge = -3e38f;
       f.first_huge_key = "17";
     },
     {"2 values of the training data are beyond 1e+30 (the first: -3e+38 of feature 17): "}},
    {"columns of tiny values",
     [](RunFacts& f) {
       f.values = 1000;
       f.tiny_values = 500;
       f.value_limit = 1e30f;
     },
     {"500 of 1000 values of the training data are closer to 0 than 1e-30: "}},
    {"single tiny values",
     [](RunFacts& f) {
       f.values = 1000;
       f.tiny_values = 10;
     },
     {}},

    {"skipped records",
     [](RunFacts& f) {
       f.corrupt_regions = 2;
       f.corrupt_bytes = 96;
       f.first_corruption = "a\x1b: offset 3";
     },
     {"skipped 2 corrupt regions, 96 bytes; the first: a\\x1b: offset 3"}},
    {"several",
     [](RunFacts& f) {
       f.mean_loss = 0.7;
       SetMetric(f, "ne", 2);
       SetMetric(f, "calibration", 3);
     },
     {"the progressive loss", "NE 2 is", "calibration 3 is"}},
};

TEST(RunWarnings, SayWhatIsProbablyWrong) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    RunFacts facts = Well();
    test.change(facts);
    const std::vector<std::string> found = RunWarnings(facts);
    std::string all;
    for (const std::string& warning : found) all += warning + "\n";
    ASSERT_EQ(found.size(), test.expected.size()) << all;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].starts_with(test.expected[i])) << found[i];
      EXPECT_EQ(found[i].find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
