// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/eval_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace::trainer {
namespace {

// The example counts at which a run of `total` examples is evaluated, with batches of `batch`.
std::vector<uint64_t> EvaluationsOf(EvalSchedule& schedule, uint64_t from, uint64_t total,
                                    uint64_t batch) {
  std::vector<uint64_t> counts;
  uint64_t examples = from;
  while (examples < total) {
    examples = std::min(examples + batch, total);
    if (!schedule.Due(examples)) continue;
    counts.push_back(examples);
    schedule.Evaluated(examples);
  }
  if (schedule.DueAtEnd(examples)) counts.push_back(examples);
  return counts;
}

std::vector<uint64_t> EvaluationsOf(uint64_t eval_every, uint64_t total, uint64_t batch) {
  EvalSchedule schedule(eval_every);
  return EvaluationsOf(schedule, 0, total, batch);
}

using Counts = std::vector<uint64_t>;

TEST(EvalSchedule, EvaluatesAtEveryBoundaryAndOnceAtTheEnd) {
  EXPECT_EQ(EvaluationsOf(20, 60, 10), (Counts{20, 40, 60}));
  EXPECT_EQ(EvaluationsOf(20, 50, 10), (Counts{20, 40, 50}));
}

TEST(EvalSchedule, ABatchMayStepOverABoundary) {
  EXPECT_EQ(EvaluationsOf(20, 100, 30), (Counts{30, 60, 90, 100}));
  EXPECT_EQ(EvaluationsOf(20, 60, 7), (Counts{21, 42, 60}));
}

TEST(EvalSchedule, ABatchThatStepsOverSeveralBoundariesIsEvaluatedOnce) {
  EXPECT_EQ(EvaluationsOf(10, 100, 35), (Counts{35, 70, 100}));
}

TEST(EvalSchedule, ZeroEvaluatesAtTheEndAlone) {
  EXPECT_EQ(EvaluationsOf(0, 100, 10), (Counts{100}));
}

TEST(EvalSchedule, ResumedRunEvaluatesWhereAnUninterruptedRunDoes) {
  for (uint64_t stop = 0; stop < 200; stop += 7) {
    EvalSchedule first(30);
    Counts counts = EvaluationsOf(first, 0, stop, 7);
    // The evaluation at the end of the first part would not be there in one run.
    if (!counts.empty() && counts.back() != first.evaluated_at()) counts.pop_back();
    EvalSchedule second(30, first.evaluated_at());
    for (const uint64_t count : EvaluationsOf(second, stop, 200, 7)) counts.push_back(count);
    EXPECT_EQ(counts, EvaluationsOf(30, 200, 7)) << stop;
  }
}

}  // namespace
}  // namespace millrace::trainer
