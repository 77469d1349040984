// SPDX-License-Identifier: Apache-2.0
#include "sparse/score/model_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace millrace::score {
namespace {

// Two numbers that are equal while the model lives.
class CountedModel {
 public:
  CountedModel(int number, std::atomic<int>& alive) : first_(number), alive_(alive) {
    second_ = number;
    ++alive_;
  }
  ~CountedModel() {
    second_ = -1;
    --alive_;
  }
  int first() const { return first_; }
  int second() const { return second_; }

 private:
  int first_;
  std::atomic<int> second_ = 0;
  std::atomic<int>& alive_;
};

struct TestScratch {
  int used = 0;  // by one call at a time
  int model = 0;
  void UseModel(const CountedModel& now) { model = now.first(); }
};
using Slots = ModelSlots<CountedModel, TestScratch>;

TEST(ModelSlots, NoCallSeesAModelThatIsReleased) {
  constexpr int kSwaps = 300;
  std::atomic<int> alive = 0;
  {
    Slots slots(std::make_unique<CountedModel>(1, alive));
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> calls = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        int last = 0;
        while (!stop) {
          Slots::Hold hold(slots);
          const int number = hold.model().first();
          ASSERT_GE(number, last);  // models follow each other
          last = number;
          ASSERT_EQ(++hold.scratch().used, 1);
          ASSERT_EQ(hold.scratch().model, number);
          ASSERT_EQ(hold.model().second(), number);
          --hold.scratch().used;
          ++calls;
        }
      });
    }
    for (int i = 2; i <= kSwaps; ++i) {
      slots.Swap(std::make_unique<CountedModel>(i, alive));
      // Swap returns when the old model is released.
      ASSERT_EQ(alive, 1);
    }
    while (calls < 1000) std::this_thread::yield();
    stop = true;
  }
  EXPECT_EQ(alive, 0);
}

TEST(ModelSlots, ASwapWaitsForACallAndOtherCallsDoNot) {
  std::atomic<int> alive = 0;
  Slots slots(std::make_unique<CountedModel>(1, alive));
  std::latch held(1), release(1);
  std::jthread reader([&] {
    const Slots::Hold hold(slots);
    held.count_down();
    release.wait();
    EXPECT_EQ(hold.model().second(), 1);
  });
  held.wait();
  std::atomic<bool> swapped = false;
  std::jthread swapper([&] {
    slots.Swap(std::make_unique<CountedModel>(2, alive));
    swapped = true;
  });
  while (Slots::Hold(slots).model().first() != 2) std::this_thread::yield();
  EXPECT_FALSE(swapped);
  EXPECT_EQ(alive, 2);
  release.count_down();
  swapper.join();
  EXPECT_EQ(alive, 1);
}

// More calls at the same time than a block has slots.
TEST(ModelSlots, AnyNumberOfCallsMayRun) {
  std::atomic<int> alive = 0;
  Slots slots(std::make_unique<CountedModel>(1, alive));
  std::vector<std::unique_ptr<Slots::Hold>> holds;
  for (int i = 0; i < 200; ++i) {
    holds.push_back(std::make_unique<Slots::Hold>(slots));
    ASSERT_EQ(++holds.back()->scratch().used, 1);
  }
  std::jthread swapper([&] { slots.Swap(std::make_unique<CountedModel>(2, alive)); });
  while (Slots::Hold(slots).model().first() != 2) std::this_thread::yield();
  holds.clear();
  swapper.join();
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace millrace::score
