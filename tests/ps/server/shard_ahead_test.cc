// Answers that go out before the store has the push.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "ps/server/shard.h"
#include "tests/ps/server/shard_fixture.h"
#include "tests/test_files.h"

namespace millrace::ps {
namespace {

// The weights of `list` after the worker's push number `sequence`.
std::vector<float> AnswerTo(Shard& shard, uint64_t sequence, const SharedKeys& list) {
  const auto weights = shard.Answer(0, sequence, list, /*remember=*/true);
  EXPECT_TRUE(weights.ok());
  EXPECT_EQ(weights->step, sequence);
  const std::span<const float> numbers = weights->numbers->numbers();
  return {numbers.begin(), numbers.end()};
}

Push PushOf(uint64_t sequence, const SharedKeys& list, float g) {
  Push push = MakePush(sequence, sequence - 1, {}, 0);
  push.list = list;
  push.gradient.assign(list->keys.size(), g);
  return push;
}

TEST(ShardAhead, AWorkerByItselfIsAnsweredBeforeTheStoreHasItsPush) {
  auto shard = Started(Config(Mode::kSync, 1));
  const SharedKeys a = List({3, 5, 7}), b = List({5, 6, 7}), c = List({1, 7});
  EXPECT_EQ(AnswerTo(*shard, 0, a), (std::vector<float>{0, 0, 0}));
  ASSERT_TRUE(shard->LookAhead(0, b).ok());
  ASSERT_TRUE(shard->Take(0, PushOf(1, a, 2), 0).ok());
  EXPECT_EQ(shard->progress().step, 1u);
  EXPECT_EQ(AnswerTo(*shard, 1, b), (std::vector<float>{-2, 0, -2}));
  EXPECT_EQ(AnswerTo(*shard, 1, b), (std::vector<float>{-2, 0, -2})) << "asked again";
  EXPECT_EQ(StoredWeight(*shard, 5), 0);
  shard->Settle();
  EXPECT_EQ(StoredWeight(*shard, 5), -2);
  ASSERT_TRUE(shard->LookAhead(0, c).ok());
  ASSERT_TRUE(shard->LookAhead(0, c).ok()) << "the same call twice";
  ASSERT_TRUE(shard->Take(0, PushOf(2, b, 1), 0).ok());
  ASSERT_TRUE(shard->Take(0, PushOf(2, b, 1), 0).ok());
  EXPECT_EQ(AnswerTo(*shard, 2, c), (std::vector<float>{0, -3}));
  // Another list than the announced one sees the push that the store did not have yet.
  ASSERT_TRUE(shard->LookAhead(0, b).ok());
  ASSERT_TRUE(shard->Take(0, PushOf(3, c, 1), 0).ok());
  EXPECT_EQ(AnswerTo(*shard, 3, a), (std::vector<float>{-2, -3, -4}));
  EXPECT_EQ(shard->keys_pushed(), 8u);
  EXPECT_EQ(shard->answered_ahead(), 2u);
}

TEST(ShardAhead, APushThatTheStoreDoesNotHaveYetIsInTheModelAndInTheCheckpoint) {
  const test::TemporaryFolder folder;
  const ShardOptions options = {.num_workers = 1, .checkpoints = folder.path()};
  const JobConfig config = Config(Mode::kSync, 1);
  const SharedKeys a = List({3, 5}), b = List({5, 6});
  const auto with_late_push = [&] {
    auto shard = Started(config, options);
    AnswerTo(*shard, 0, a);
    EXPECT_TRUE(shard->LookAhead(0, b).ok());
    EXPECT_TRUE(shard->Take(0, PushOf(1, a, 2), 0).ok());
    return shard;
  };
  EXPECT_EQ(Weight(*with_late_push(), 3), -2);
  ASSERT_TRUE(with_late_push()->Save(1, "").ok());
  Shard restored(options);
  ASSERT_TRUE(restored.Join(0, "", config.Fields().Encode(), false).ok());
  ASSERT_TRUE(restored.Restore(1).ok());
  EXPECT_EQ(Weight(restored, 3), -2);
  EXPECT_EQ(restored.progress().step, 1u);
  EXPECT_EQ(restored.worker(0).received, 1u);
  auto stopped = with_late_push();
  ASSERT_TRUE(stopped->Stop(0).ok());
  EXPECT_EQ(Weight(*stopped, 3), -2) << "it counted before the stop";
}

TEST(ShardAhead, NobodyLooksAheadWhereOthersMakeStepsToo) {
  auto shard = Started(Config(Mode::kSync, 2));
  const SharedKeys a = List({3, 5}), b = List({5, 6});
  EXPECT_FALSE(shard->StepsAlone(0));
  AnswerTo(*shard, 0, a);
  ASSERT_TRUE(shard->LookAhead(0, b).ok());
  ASSERT_TRUE(shard->Take(0, PushOf(1, a, 2), 0).ok());
  ASSERT_TRUE(shard->Take(1, MakePush(1, 0, {6}, 4), 0).ok());
  EXPECT_EQ(AnswerTo(*shard, 1, b), (std::vector<float>{-1, -2}));
  // The other one is done: from now on this one makes the steps.
  shard->Finish(1, 0);
  EXPECT_TRUE(shard->StepsAlone(0));
  ASSERT_TRUE(shard->LookAhead(0, a).ok());
  ASSERT_TRUE(shard->Take(0, PushOf(2, b, 1), 0).ok());
  EXPECT_EQ(AnswerTo(*shard, 2, a), (std::vector<float>{-1, -2}));
  EXPECT_FALSE(Started(Config(Mode::kAsync, 1))->StepsAlone(0));
}

// Both had an answer prepared when they were by themselves, one after the other, at the same step.
TEST(ShardAhead, TwoThatWereAloneInTurnsDoNotTakeEachOthersPlace) {
  JobConfig config = Config(Mode::kSync, 2);
  config.replicas_to_aggregate = 1;
  auto shard = Started(config);
  const SharedKeys a = List({3, 5}), b = List({5, 6}), c = List({3, 6}), d = List({3, 7});
  const auto answer = [&](size_t worker, const SharedKeys& list) {
    EXPECT_TRUE(shard->Answer(worker, 0, list, /*remember=*/true).ok());
  };
  shard->Disconnected(1, 1, 0);
  ASSERT_TRUE(shard->StepsAlone(0));
  answer(0, a);
  ASSERT_TRUE(shard->LookAhead(0, b).ok());
  ASSERT_TRUE(shard->Join(1, "host", config.Fields().Encode(), /*again=*/true).ok());
  shard->Finish(0, 0);
  ASSERT_TRUE(shard->StepsAlone(1));
  answer(1, c);
  ASSERT_TRUE(shard->LookAhead(1, d).ok());
  ASSERT_TRUE(shard->Take(1, PushOf(1, c, 2), 0).ok());
  EXPECT_EQ(StoredWeight(*shard, 3), 0) << "its answer goes first";
  Push push = PushOf(1, a, 1);  // of one who had finished
  push.step = 1;
  ASSERT_TRUE(shard->Take(0, push, 0).ok());
  EXPECT_EQ(Weight(*shard, 3), -3);
  EXPECT_EQ(Weight(*shard, 5), -1);
  EXPECT_EQ(Weight(*shard, 6), -2);
  EXPECT_EQ(shard->progress().step, 2u);
}

}  // namespace
}  // namespace millrace::ps
