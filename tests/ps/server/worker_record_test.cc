// SPDX-License-Identifier: Apache-2.0
#include "ps/server/worker_record.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace::ps {
namespace {

constexpr int64_t kSecond = 1000000000;

// Workers whose pushes arrived at these times; 0: it has not pushed.
std::vector<WorkerRecord> Arrivals(const std::vector<int64_t>& arrived_ns) {
  std::vector<WorkerRecord> workers(arrived_ns.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    if (arrived_ns[i] > 0) workers[i].pending.emplace();
    workers[i].arrived_ns = arrived_ns[i];
  }
  return workers;
}

TEST(StepQuorum, LateWorkersCountAsPresent) {
  const StepQuorum all = {.active = 3, .needed = 3};
  EXPECT_FALSE(all.IsEnough(2, 0));
  EXPECT_TRUE(all.IsEnough(3, 0));
  const StepQuorum two_of_four = {.active = 4, .needed = 2};
  EXPECT_FALSE(two_of_four.IsEnough(1, 2));
  EXPECT_TRUE(two_of_four.IsEnough(1, 3));
  EXPECT_TRUE(two_of_four.IsEnough(2, 0));
}

TEST(StragglerWatch, TimeBetweenTheLastTwoArrivalsIsBookedToTheLastWorker) {
  StragglerWatch watch(4);
  EXPECT_EQ(watch.last_worker(), -1);
  auto workers = Arrivals({5 * kSecond, 9 * kSecond, 6 * kSecond, 0});
  watch.CountStep(workers, 9 * kSecond, [](size_t, const std::string&) { FAIL(); });
  EXPECT_EQ(watch.last_worker(), 1);
  EXPECT_EQ(workers[1].waited_ns, 3 * kSecond);
  for (const size_t other : {0, 2, 3}) EXPECT_EQ(workers[other].waited_ns, 0);
}

TEST(StragglerWatch, StepOfASingleWorkerBooksNoTime) {
  StragglerWatch watch(2);
  auto workers = Arrivals({7 * kSecond, 0});
  watch.CountStep(workers, 7 * kSecond, [](size_t, const std::string&) { FAIL(); });
  EXPECT_EQ(watch.last_worker(), 0);
  EXPECT_EQ(workers[0].waited_ns, 0);
}

TEST(StragglerWatch, WorkerIsSlowAtHalfOfTenSeconds) {
  for (const int64_t delay_ms : {499, 500}) {
    SCOPED_TRACE(delay_ms);
    StragglerWatch watch(2);
    std::vector<WorkerRecord> workers(2);
    std::vector<std::pair<size_t, std::string>> notes;
    const auto note = [&](size_t worker, const std::string& what) {
      notes.emplace_back(worker, what);
    };
    for (int64_t step = 1; step <= 21; ++step) {
      for (size_t w = 0; w < 2; ++w) {
        workers[w].pending.emplace();
        workers[w].arrived_ns = step * kSecond + static_cast<int64_t>(w) * delay_ms * 1000000;
      }
      watch.CountStep(workers, workers[1].arrived_ns, note);
    }
    // The first step opens the first ten seconds, and its wait counts there too.
    ASSERT_EQ(notes.size(), delay_ms == 500 ? 2u : 1u);
    EXPECT_EQ(notes[0].first, 1u);
    EXPECT_EQ(notes.back().second,
              delay_ms == 500 ? "is slow: the others waited for it 5.0 of the last 10.0 s"
                              : "is slow: the others waited for it 5.5 of the last 10.0 s");
  }
}

}  // namespace
}  // namespace millrace::ps
