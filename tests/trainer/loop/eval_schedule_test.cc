#include "trainer/loop/eval_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace millrace::trainer {
namespace {

// The example counts at which a run of `total` examples tests, learning `batch` at a time.
std::vector<uint64_t> TestsOf(EvalSchedule& schedule, uint64_t from, uint64_t total,
                              uint64_t batch) {
  std::vector<uint64_t> tests;
  uint64_t examples = from;
  while (examples < total) {
    examples = std::min(examples + batch, total);
    if (!schedule.Due(examples)) continue;
    tests.push_back(examples);
    schedule.Tested(examples);
  }
  if (schedule.DueAtEnd(examples)) tests.push_back(examples);
  return tests;
}

std::vector<uint64_t> TestsOf(uint64_t eval_every, uint64_t total, uint64_t batch) {
  EvalSchedule schedule(eval_every);
  return TestsOf(schedule, 0, total, batch);
}

using Counts = std::vector<uint64_t>;

TEST(EvalSchedule, TestsAtEveryBoundaryAndOnceAtTheEnd) {
  EXPECT_EQ(TestsOf(20, 60, 10), (Counts{20, 40, 60}));
  EXPECT_EQ(TestsOf(20, 50, 10), (Counts{20, 40, 50}));
}

TEST(EvalSchedule, ABatchMayStepOverABoundary) {
  EXPECT_EQ(TestsOf(20, 100, 30), (Counts{30, 60, 90, 100}));
  EXPECT_EQ(TestsOf(20, 60, 7), (Counts{21, 42, 60}));
}

TEST(EvalSchedule, ABatchThatStepsOverSeveralBoundariesIsTestedOnce) {
  EXPECT_EQ(TestsOf(10, 100, 35), (Counts{35, 70, 100}));
}

TEST(EvalSchedule, ZeroTestsAtTheEndAlone) { EXPECT_EQ(TestsOf(0, 100, 10), (Counts{100})); }

TEST(EvalSchedule, AResumedRunTestsWhereTheOtherWouldHave) {
  for (uint64_t stop = 0; stop < 200; stop += 7) {
    EvalSchedule first(30);
    Counts tests = TestsOf(first, 0, stop, 7);
    // The test at the end of the first part would not be there in one run.
    if (!tests.empty() && tests.back() != first.tested_at()) tests.pop_back();
    EvalSchedule second(30, first.tested_at());
    for (const uint64_t count : TestsOf(second, stop, 200, 7)) tests.push_back(count);
    EXPECT_EQ(tests, TestsOf(30, 200, 7)) << stop;
  }
}

}  // namespace
}  // namespace millrace::trainer
