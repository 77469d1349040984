// SPDX-License-Identifier: Apache-2.0
#include "ps/server/shard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/shard_fixture.h"

namespace millrace::ps {
namespace {

constexpr int64_t kSecond = 1000000000;

TEST(Shard, SyncStepIsAppliedAfterAllPushesAndIsTheMeanOverAllRows) {
  auto shard = Started(Config(Mode::kSync, 2));
  ASSERT_TRUE(shard->Receive(1, MakePush(1, 0, {3, 5}, 2), 0).ok());
  EXPECT_FALSE(shard->ReplyDue(1, 1));
  EXPECT_EQ(shard->ReplyBlockedOn(1), "worker 0 (host)");
  EXPECT_EQ(Weight(*shard, 3), 0);
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5, 7}, 4), 0).ok());
  EXPECT_TRUE(shard->ReplyDue(1, 1));
  EXPECT_EQ(Weight(*shard, 3), -1);
  EXPECT_EQ(Weight(*shard, 5), -3);
  EXPECT_EQ(Weight(*shard, 7), -2);
  EXPECT_EQ(shard->progress().step, 1u);
  EXPECT_EQ(shard->progress().examples, 2u);
}

TEST(Shard, AdaptiveRulesGetTheSum) {
  auto shard = Started(Config(Mode::kSync, 2, sparse::Rule::kAdaGrad));
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  ASSERT_TRUE(shard->Receive(1, MakePush(1, 0, {5}, 2), 0).ok());
  float state = 0;
  shard->store().ForEach([&](uint64_t, std::span<const float> slot) { state = slot[1]; });
  EXPECT_FLOAT_EQ(state, 9);  // n = (1 + 2)^2
}

TEST(Shard, PushIsAppliedOnceAndAGapIsRefused) {
  auto shard = Started(Config(Mode::kAsync, 1));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_EQ(Weight(*shard, 5), -1);
  const Status gap = shard->Receive(0, MakePush(3, 0, {5}, 1), 0);
  EXPECT_EQ(gap.message(), "worker 0 (host): expected push 2, found 3");
  EXPECT_EQ(Weight(*shard, 5), -1);
}

TEST(Shard, GradientsOfAnotherLengthAndFromTheFutureAreRefused) {
  auto shard = Started(Config(Mode::kSync, 1));
  Push push = MakePush(1, 0, {5, 6}, 1);
  push.gradient.resize(1);
  EXPECT_FALSE(shard->Receive(0, push, 0).ok());
  EXPECT_FALSE(shard->Receive(0, MakePush(1, 7, {5}, 1), 0).ok());
  EXPECT_EQ(shard->worker(0).received, 0u);
}

TEST(Shard, AnotherJobAndASecondWorkerOfTheSameNumberAreRefused) {
  auto shard = Started(Config(Mode::kSync, 2));
  const auto twin = shard->Join(JoinOf(1, "other", Config(Mode::kSync, 2)));
  EXPECT_NE(twin.status().message().find("is in this job already"), std::string::npos);
  JobConfig other = Config(Mode::kSync, 2);
  other.update.rate = 0.25;
  shard->Disconnected(1, 1, 0);
  const auto wrong_job = shard->Join(JoinOf(1, "other", other, true));
  EXPECT_EQ(wrong_job.status().message(), "the job has option.rate 1, found 0.25");
  EXPECT_FALSE(shard->Join(JoinOf(2, "x", Config(Mode::kSync, 2))).ok());
  JoinRequest garbage = JoinOf(1, "x", other, true);
  garbage.config = "garbage";
  EXPECT_FALSE(shard->Join(garbage).ok());
}

TEST(Shard, ReplacedConnectionIsRefusedAndItsEndIsIgnored) {
  auto shard = Started(Config(Mode::kSync, 2));
  shard->Disconnected(1, 1, 0);
  JoinRequest join = JoinOf(1, "host", Config(Mode::kSync, 2), true);
  join.process = 7;
  ASSERT_TRUE(shard->Join(join).ok());
  join.attempt = 1;
  const auto generation = shard->Join(join);
  ASSERT_TRUE(generation.ok());
  EXPECT_FALSE(shard->CheckCaller(1, *generation - 1).ok());
  EXPECT_TRUE(shard->CheckCaller(1, *generation).ok());
  shard->Disconnected(1, *generation - 1, 0);
  EXPECT_EQ(shard->worker(1).phase, WorkerPhase::kJoined);
}

TEST(Shard, FinishedWorkersAreNotWaitedFor) {
  auto shard = Started(Config(Mode::kSync, 2));
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_FALSE(shard->ReplyDue(0, 1));
  shard->Finish(1, 0);
  EXPECT_TRUE(shard->ReplyDue(0, 1));
  EXPECT_EQ(Weight(*shard, 5), -1);
  shard->Leave(0, 0);
  EXPECT_FALSE(shard->done());
  shard->Leave(1, 0);
  EXPECT_TRUE(shard->done());
}

TEST(Shard, LostWorkerFailsASyncJobAfterTheTimeout) {
  auto shard = Started(Config(Mode::kSync, 2));
  shard->Disconnected(1, 1, kSecond);
  shard->Tick(4 * kSecond);
  EXPECT_TRUE(shard->failed().ok());
  shard->Tick(6 * kSecond);
  EXPECT_NE(shard->failed().message().find("worker 1 (host) did not come back"), std::string::npos);
  EXPECT_FALSE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
}

TEST(Shard, StopDropsPendingAndLaterPushes) {
  auto shard = Started(Config(Mode::kSync, 2));
  ASSERT_TRUE(shard->Receive(1, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_FALSE(shard->Stop(1).ok());
  ASSERT_TRUE(shard->Stop(0).ok());
  EXPECT_TRUE(shard->ReplyDue(1, 1));
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_EQ(Weight(*shard, 5), 0);
  EXPECT_EQ(shard->progress().step, 0u);
}

// A weight is in the gradient already; the number of rows says how many examples it is of.
TEST(Shard, GradientIsDividedByTheRowsOfTheStepNotByTheirWeight) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    auto shard = Started(Config(mode, 2));
    Push first = MakePush(1, 0, {5, io::kInterceptKey}, 8), second = MakePush(1, 0, {5}, 8);
    first.rows = 3;
    first.weight = 30;
    second.weight = 0;
    ASSERT_TRUE(shard->Receive(0, std::move(first), 0).ok());
    ASSERT_TRUE(shard->Receive(1, std::move(second), 0).ok());
    const float all = 16.0f / 4, one_by_one = 8.0f / 3 + 8;
    EXPECT_FLOAT_EQ(Weight(*shard, 5), mode == Mode::kSync ? -all : -one_by_one);
    EXPECT_FLOAT_EQ(Weight(*shard, io::kInterceptKey), mode == Mode::kSync ? -2 : -8.0f / 3);
    EXPECT_EQ(shard->progress().weight, 30);
  }
}

TEST(Shard, SlowWorkersAreNamed) {
  std::vector<std::string> notes;
  ShardOptions options;
  options.on_note = [&](const std::string& note) { notes.push_back(note); };
  auto shard = Started(Config(Mode::kSync, 2), options);
  for (uint64_t step = 0; step < 15; ++step) {
    const auto begin = static_cast<int64_t>(step + 1) * kSecond;
    ASSERT_TRUE(shard->Receive(0, MakePush(step + 1, step, {5}, 0), begin).ok());
    ASSERT_TRUE(shard->Receive(1, MakePush(step + 1, step, {5}, 0), begin + kSecond * 9 / 10).ok());
  }
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.front(),
            "worker 1 (host) is slow: the others waited for it 9.9 of the last 10.0 s");
  EXPECT_EQ(shard->last_worker(), 1);
}

TEST(Shard, DenseBlocksFollowTheJobsMode) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync}) {
    SCOPED_TRACE(ModeName(mode));
    JobConfig config = Config(mode, 2);
    config.dense.emplace();
    config.dense->rule = sparse::DenseRule::kSgd;
    config.dense->rate = 1;
    auto shard = Started(config);
    const std::vector<float> first = {1, 2}, ignored = {9, 9}, g = {1, 1}, h = {4, 4};
    EXPECT_FALSE(shard->DenseReady(1, 0, 0));
    ASSERT_TRUE(shard->InitDense(1, 0, ignored).ok());
    EXPECT_FALSE(shard->DenseReady(1, 0, 0));
    ASSERT_TRUE(shard->InitDense(0, 0, first).ok());
    EXPECT_TRUE(shard->DenseReady(1, 0, 0));
    ASSERT_TRUE(shard->PushDense(0, {.worker = 1, .sequence = 1, .rows = 1, .mean = g}).ok());
    EXPECT_EQ(shard->DenseReady(1, 0, 1), mode == Mode::kAsync);
    EXPECT_TRUE(shard->DenseReady(1, 0, 0))
        << "a worker that repeats the step is not blocked on it";
    // A repeated push is not applied again.
    ASSERT_TRUE(shard->PushDense(0, {.worker = 1, .sequence = 1, .rows = 1, .mean = g}).ok());
    ASSERT_TRUE(shard->PushDense(0, {.worker = 0, .sequence = 1, .rows = 2, .mean = h}).ok());
    const std::span<const float> w = shard->dense()->weights(0);
    EXPECT_FLOAT_EQ(w[0], mode == Mode::kSync ? 1 - (1.0f + 2 * 4) / 3 : 1 - 1 - 4);
    EXPECT_EQ(shard->dense()->For(0, 1, 1).weights[0], w[0]);
    // A worker that rejoins in the middle of a synchronous step gets the same weights again.
    const DenseTable::View again = shard->dense()->For(0, 1, 0);
    EXPECT_EQ(again.weights[0], mode == Mode::kSync ? 1 : w[0]);
    EXPECT_EQ(again.steps, mode == Mode::kSync ? 0u : 2u);
    EXPECT_FALSE(shard->PushDense(7, {.worker = 0, .sequence = 1, .rows = 2, .mean = h}).ok());
    EXPECT_FALSE(shard->PushDense(0, {.worker = 0, .sequence = 9, .rows = 2, .mean = h}).ok());
    ASSERT_TRUE(
        shard->PushDense(0, {.worker = 0, .sequence = 2, .step = 1, .rows = 1, .mean = g}).ok());
    const std::vector<float> at_stop(w.begin(), w.end());
    ASSERT_TRUE(shard->Stop(0).ok());
    ASSERT_TRUE(
        shard->PushDense(0, {.worker = 1, .sequence = 2, .step = 1, .rows = 1, .mean = g}).ok());
    shard->Finish(1, 0);
    EXPECT_EQ(w[0], at_stop[0]) << "after a stop nothing counts";
    EXPECT_TRUE(shard->DenseReady(0, 0, 2)) << "and no worker is blocked";
  }
}

TEST(Shard, ProcessMayJoinAgainWithALaterAttempt) {
  Shard shard({});
  const auto join = [&](uint64_t process, uint64_t attempt, bool again = false) {
    JoinRequest request = JoinOf(0, "host, pid 1", Config(Mode::kSync, 1), again);
    request.process = process;
    request.attempt = attempt;
    return shard.Join(request);
  };
  const auto first = join(7, 1);
  ASSERT_TRUE(first.ok());
  const auto third = join(7, 3);
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_FALSE(join(7, 2).ok()) << "an older attempt that arrives late replaces nothing";
  EXPECT_TRUE(shard.CheckCaller(0, *third).ok());
  EXPECT_FALSE(shard.CheckCaller(0, *first).ok());
  EXPECT_FALSE(join(8, 9).ok());
  EXPECT_FALSE(join(7, 3).ok()) << "a repeated join replaces nothing";
  EXPECT_FALSE(join(8, 1, /*again=*/true).ok()) << "the worker is connected";
  JoinRequest again = JoinOf(0, "host, pid 1", Config(Mode::kSync, 1), true);
  EXPECT_EQ(shard.JoinBlockedOn(again), "worker 0 (host, pid 1), whose connection is still open");
  shard.Disconnected(0, *third, 0);
  EXPECT_EQ(shard.JoinBlockedOn(again), "");
  EXPECT_TRUE(join(8, 1, /*again=*/true).ok()) << "started again, in a container";
}

// A worker whose reply to finish or leave was lost joins again to repeat the call.
TEST(Shard, AnotherProcessDoesNotReplaceAWorkerThatRepeatsItsLastCall) {
  const JobConfig config = Config(Mode::kAsync, 2);
  for (const bool leaves : {true, false}) {
    SCOPED_TRACE(leaves);
    auto shard = Started(config);
    const auto end = [&](uint64_t generation) {
      if (leaves) return shard->Leave(1, 0);
      shard->Finish(1, 0);
      shard->Disconnected(1, generation, 0);
    };
    end(1);
    ASSERT_EQ(shard->worker(1).phase, WorkerPhase::kLeft);
    JoinRequest mine = JoinOf(1, "host", config, true), other = mine;
    mine.process = 7;
    other.process = 8;
    const auto back = shard->Join(mine);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_NE(shard->JoinBlockedOn(other), "");
    EXPECT_FALSE(shard->Join(other).ok());
    EXPECT_TRUE(shard->CheckCaller(1, *back).ok());
    end(*back);
    EXPECT_EQ(shard->JoinBlockedOn(other), "") << "its connection has ended";
    EXPECT_TRUE(shard->Join(other).ok());
  }
}

TEST(Shard, AnEmptyStepChangesNothing) {
  auto shard = Started(Config(Mode::kSync, 2)), same = Started(Config(Mode::kSync, 1));
  Push nothing = MakePush(1, 0, {}, 0);
  nothing.rows = 0;
  nothing.weight = 0;
  ASSERT_TRUE(shard->Receive(0, nothing, 0).ok());
  EXPECT_FALSE(shard->ReplyDue(0, 1)) << "the reply waits for the step";
  EXPECT_FALSE(shard->OthersFinished(0));
  ASSERT_TRUE(shard->Receive(1, MakePush(1, 0, {3, 5}, 2), 0).ok());
  ASSERT_TRUE(same->Receive(0, MakePush(1, 0, {3, 5}, 2), 0).ok());
  EXPECT_TRUE(shard->ReplyDue(0, 1));
  EXPECT_EQ(Weight(*shard, 3), Weight(*same, 3));
  EXPECT_EQ(shard->progress().examples, 1u);
  EXPECT_EQ(shard->worker(0).pushes, 0u);
  nothing.sequence = 2;
  nothing.step = 1;
  ASSERT_TRUE(shard->Receive(0, nothing, 0).ok());
  shard->Finish(1, 0);
  EXPECT_TRUE(shard->ReplyDue(0, 2));
  EXPECT_TRUE(shard->OthersFinished(0));
  EXPECT_EQ(shard->progress().step, 1u) << "no worker trained on anything";
}

TEST(Shard, LostWorkerThatMayRejoinIsUnfinished) {
  auto shard = Started(Config(Mode::kAsync, 2));
  shard->Finish(0, 0);
  shard->Disconnected(1, 1, kSecond);
  EXPECT_NE(shard->UnfinishedWorkers(), "");
  shard->Tick(2 * kSecond);
  EXPECT_NE(shard->UnfinishedWorkers(), "");
  shard->Tick(6 * kSecond);
  EXPECT_EQ(shard->UnfinishedWorkers(), "");
  EXPECT_TRUE(shard->failed().ok());
}

TEST(Shard, StoppedJobIgnoresALostWorker) {
  auto shard = Started(Config(Mode::kSync, 2));
  shard->Disconnected(1, 1, kSecond);
  ASSERT_TRUE(shard->Stop(0).ok());
  shard->Finish(0, 0);
  EXPECT_EQ(shard->UnfinishedWorkers(), "");
  shard->Tick(60 * kSecond);
  EXPECT_TRUE(shard->failed().ok());
}

TEST(Shard, AfterAStopEveryReplyIsDue) {
  JobConfig config = Config(Mode::kSsp, 2);
  config.staleness = 1;
  auto shard = Started(config);
  for (uint64_t i = 1; i <= 2; ++i)
    ASSERT_TRUE(shard->Receive(0, MakePush(i, i - 1, {1}, 1), 0).ok());
  EXPECT_FALSE(shard->ReplyDue(0, 2));
  ASSERT_TRUE(shard->Stop(0).ok());
  EXPECT_TRUE(shard->ReplyDue(0, 2));
}

TEST(Shard, RejoiningAfterTheEndIsRefused) {
  auto shard = Started(Config(Mode::kAsync, 2));
  shard->Finish(0, 0);
  shard->Disconnected(1, 1, kSecond);
  shard->Tick(6 * kSecond);
  ASSERT_EQ(shard->UnfinishedWorkers(), "");
  shard->CloseJoins();
  const auto late = shard->Join(JoinOf(1, "host", Config(Mode::kAsync, 2), true));
  EXPECT_NE(late.status().message().find("too late"), std::string::npos) << late.status().message();
}

TEST(Shard, HeldPushesAreThoseAfterTheLastOnes) {
  auto shard = Started(Config(Mode::kAsync, 2));
  ASSERT_TRUE(shard->Receive(0, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_FALSE(shard->IsHeld(0, 2));
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  EXPECT_EQ(shard->HoldBlockedOn(0), "") << "what was received is there";
  EXPECT_FALSE(shard->IsHeld(0, 1)) << "a repeated push";
  EXPECT_TRUE(shard->IsHeld(0, 2));
  EXPECT_TRUE(shard->IsHeld(1, 1));
  // Another shard has received push 1 of worker 1.
  ASSERT_TRUE(shard->HoldPushes({.last_pushes = {1, 1}}, 0).ok());
  EXPECT_EQ(shard->HoldBlockedOn(0), "worker 1 (host)");
  EXPECT_FALSE(shard->IsHeld(1, 1));
  ASSERT_TRUE(shard->Receive(1, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_TRUE(shard->IsHeld(1, 2));
  EXPECT_FALSE(shard->IsHeld(1, 3)) << "out of order: refused at once";
  EXPECT_EQ(shard->HoldBlockedOn(0), "");
  // A repeated first request changes nothing.
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  EXPECT_FALSE(shard->IsHeld(1, 1));
  EXPECT_TRUE(shard->IsHeld(1, 2));
  ASSERT_TRUE(shard->HoldPushes({.hold = false}, 0).ok());
  EXPECT_FALSE(shard->IsHeld(0, 2));
  EXPECT_FALSE(shard->IsHeld(1, 2));
}

TEST(Shard, AHoldWaitsForNoWorkerThatFinishedIsGivenUpOrTakesTooLong) {
  auto shard = Started(Config(Mode::kAsync, 4));
  ASSERT_TRUE(shard->HoldPushes({.last_pushes = {0, 1, 1, 1}}, kSecond).ok());
  EXPECT_EQ(shard->HoldBlockedOn(kSecond), "worker 1 (host), worker 2 (host), worker 3 (host)");
  shard->Finish(1, kSecond);
  shard->Disconnected(2, 1, kSecond);
  EXPECT_EQ(shard->HoldBlockedOn(kSecond), "worker 2 (host), worker 3 (host)");
  shard->Tick(5 * kSecond);
  EXPECT_EQ(shard->HoldBlockedOn(4 * kSecond), "worker 3 (host)");
  EXPECT_EQ(shard->HoldBlockedOn(5 * kSecond), "");
  ASSERT_TRUE(shard->Receive(3, MakePush(1, 0, {5}, 1), 0).ok());
  EXPECT_TRUE(shard->IsHeld(3, 2)) << "until the checkpoint is written";
}

TEST(Shard, AStopAndANewChiefEndAHold) {
  const JobConfig config = Config(Mode::kSsp, 2);
  auto shard = Started(config);
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  JoinRequest chief = JoinOf(0, "host", config, true);
  chief.process = 7;
  shard->Disconnected(0, 1, 0);
  EXPECT_TRUE(shard->IsHeld(1, 1)) << "the chief may be back";
  ASSERT_TRUE(shard->Join(chief).ok());
  EXPECT_FALSE(shard->IsHeld(1, 1));
  ASSERT_TRUE(shard->HoldPushes({}, 0).ok());
  shard->Disconnected(0, 2, 0);
  chief.attempt = 1;  // the same process
  ASSERT_TRUE(shard->Join(chief).ok());
  EXPECT_TRUE(shard->IsHeld(1, 1));
  ASSERT_TRUE(shard->Stop(0).ok());
  EXPECT_FALSE(shard->IsHeld(1, 1));
  ASSERT_TRUE(shard->HoldPushes({.last_pushes = {0, 1}}, 0).ok());
  EXPECT_EQ(shard->HoldBlockedOn(0), "") << "no push counts any more";
}

TEST(Shard, HoldsOfOtherJobsAndOfAnotherNumberOfWorkersAreRefused) {
  EXPECT_EQ(Started(Config(Mode::kSync, 1))->HoldPushes({}, 0).code(), Code::kInvalid);
  JobConfig dense = Config(Mode::kAsync, 1);
  dense.dense.emplace();
  EXPECT_EQ(Started(dense)->HoldPushes({}, 0).code(), Code::kInvalid);
  auto shard = Started(Config(Mode::kAsync, 2));
  EXPECT_EQ(shard->HoldPushes({.last_pushes = {1, 2, 3}}, 0).message(),
            "expected the pushes of 2 workers, found 3");
  EXPECT_FALSE(shard->IsHeld(0, 1));
}

// A late worker may be blocked, on another server, on workers whose gradients are pending here.
TEST(Shard, StepDoesNotWaitForALateWorker) {
  JobConfig config = Config(Mode::kSync, 3);
  config.replicas_to_aggregate = 2;
  config.dense.emplace();
  auto shard = Started(config);
  const std::vector<float> weights = {1}, g = {1};
  ASSERT_TRUE(shard->InitDense(0, 0, weights).ok());
  for (const size_t worker : {0, 1}) {
    ASSERT_TRUE(shard->Receive(worker, MakePush(1, 0, {3}, 1), 0).ok());
    ASSERT_TRUE(shard->PushDense(0, {.worker = worker, .sequence = 1, .rows = 1, .mean = g}).ok());
  }
  shard->Finish(0, 0);
  ASSERT_TRUE(shard->Receive(1, MakePush(2, 1, {3}, 1), 0).ok());
  ASSERT_TRUE(
      shard->PushDense(0, {.worker = 1, .sequence = 2, .step = 1, .rows = 1, .mean = g}).ok());
  EXPECT_FALSE(shard->ReplyDue(1, 2));
  EXPECT_FALSE(shard->DenseReady(1, 0, 2));
  ASSERT_TRUE(shard->PushDense(0, {.worker = 2, .sequence = 1, .rows = 1, .mean = g}).ok());
  ASSERT_TRUE(shard->Receive(2, MakePush(1, 0, {3}, 1), 0).ok());
  EXPECT_TRUE(shard->ReplyDue(1, 2));
  EXPECT_TRUE(shard->DenseReady(1, 0, 2));
  EXPECT_EQ(shard->progress().step, 2u);
}

}  // namespace
}  // namespace millrace::ps
