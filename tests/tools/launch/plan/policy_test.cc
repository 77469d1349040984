// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace millrace::launch {
namespace {

const ProcessExit kServerKilled = {{Role::kServer, 0}, 137};
const ProcessExit kChiefKilled = {{Role::kWorker, 0}, 137};
const ProcessExit kWorkerKilled = {{Role::kWorker, 1}, 137};

TEST(Policy, SyncNeedsEveryWorker) {
  EXPECT_EQ(Decide(kWorkerKilled, {}), Decision::kEndJob);
  EXPECT_EQ(Decide(kWorkerKilled, {.restarts_left = 1}), Decision::kRestartWorker);
}

TEST(Policy, AsyncContinuesWithoutAWorkerButNotWithoutChiefOrServer) {
  const FailurePolicy async = {.survives_workers = true};
  EXPECT_EQ(Decide(kWorkerKilled, async), Decision::kContinue);
  EXPECT_EQ(Decide(kChiefKilled, async), Decision::kEndJob);
  EXPECT_EQ(Decide(kServerKilled, async), Decision::kEndJob);
}

TEST(Policy, ServerAndChiefRestartTheWholeJob) {
  const FailurePolicy restart = {.restarts_left = 1};
  EXPECT_EQ(Decide(kServerKilled, restart), Decision::kRestartJob);
  EXPECT_EQ(Decide(kChiefKilled, restart), Decision::kRestartJob);
}

TEST(Policy, PermanentFailureIsNotRestarted) {
  for (const int status : {2, 126, 127}) {
    EXPECT_EQ(Decide({{Role::kWorker, 1}, status}, {.restarts_left = 5}), Decision::kEndJob);
    EXPECT_EQ(Decide({{Role::kServer, 1}, status}, {.restarts_left = 5}), Decision::kEndJob);
  }
}

TEST(Policy, StatusTwoAfterTheBeginIsARefusalByTheServers) {
  ProcessExit refused = {{Role::kWorker, 1}, 2, "worker 1 has a newer connection"};
  refused.has_begun = true;
  EXPECT_EQ(Decide(refused, {.restarts_left = 5}), Decision::kRestartWorker);
  refused.is_repeat = true;
  EXPECT_EQ(Decide(refused, {.restarts_left = 5}), Decision::kRestartJob)
      << "the worker cannot come back alone";
  EXPECT_EQ(Decide(refused, {.survives_workers = true, .restarts_left = 5}), Decision::kContinue);
  EXPECT_EQ(Decide(refused, {}), Decision::kEndJob);
  refused.id = {Role::kWorker, 0};
  EXPECT_EQ(Decide(refused, {.restarts_left = 5}), Decision::kEndJob) << "twice the same";
  refused.is_repeat = false;
  EXPECT_EQ(Decide(refused, {.restarts_left = 5}), Decision::kRestartJob);
}

TEST(Policy, NothingIsRestartedWhenTheModelIsSaved) {
  const FailurePolicy done = {.is_chief_done = true, .restarts_left = 5};
  EXPECT_EQ(Decide(kServerKilled, done), Decision::kContinue);
  EXPECT_EQ(Decide(kWorkerKilled, done), Decision::kContinue);
}

TEST(Policy, RepeatedFailureIsNotRetried) {
  const ProcessExit corrupt = {{Role::kWorker, 1}, 1, "millrace-lr: a.tfrecord: corrupt at 7"};
  const std::vector<ProcessExit> earlier = {corrupt, {{Role::kServer, 0}, 137, "same"}};
  const auto is_repeat = [&](std::vector<ProcessExit> exits) {
    MarkRepeat(exits, earlier);
    return std::any_of(exits.begin(), exits.end(),
                       [](const ProcessExit& e) { return e.is_repeat; });
  };
  EXPECT_TRUE(is_repeat({corrupt}));
  EXPECT_TRUE(is_repeat({corrupt, {{Role::kWorker, 2}, 1, "gave up"}}))
      << "the root cause came first";
  EXPECT_FALSE(is_repeat({}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 1}, 1, "millrace-lr: a.tfrecord: corrupt at 8"}}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 2}, 1, corrupt.last_stderr_line}}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 1}, 1}})) << "no stderr line";
  EXPECT_FALSE(is_repeat({{{Role::kServer, 0}, 137, "same"}})) << "it was killed";
  EXPECT_FALSE(is_repeat({corrupt, {{Role::kServer, 0}, 137, ""}})) << "it is not the root cause";
  ProcessExit again = corrupt;
  again.is_repeat = true;
  EXPECT_EQ(Decide(again, {.restarts_left = 5}), Decision::kEndJob);
  EXPECT_EQ(Decide(again, {.survives_workers = true, .restarts_left = 5}), Decision::kContinue);
  EXPECT_EQ(EndReason(std::vector<ProcessExit>{again}, 5),
            "; it failed in the same way before its restart");
}

TEST(Policy, RootCauseIsTheKilledOneThenTheServerThenTheFirst) {
  const ProcessExit worker_failed = {{Role::kWorker, 2}, 1},
                    server_failed = {{Role::kServer, 1}, 1};
  const ProcessExit other_failed = {{Role::kWorker, 0}, 1};
  const auto root = [](std::vector<ProcessExit> exits) { return NameOf(RootCause(exits).id); };
  EXPECT_EQ(root({worker_failed, server_failed, kWorkerKilled}), "worker 1");
  EXPECT_EQ(root({worker_failed, kWorkerKilled, kServerKilled}), "ps 0");
  EXPECT_EQ(root({worker_failed, server_failed}), "ps 1");
  EXPECT_EQ(root({worker_failed, other_failed}), "worker 2");
}

TEST(Policy, OneRestartOfTheJobCoversExitsAtTheSameTime) {
  const ProcessExit other_killed = {{Role::kWorker, 2}, 137};
  const FailurePolicy one_left = {.restarts_left = 1};
  const auto decide = [](std::vector<ProcessExit> exits, const FailurePolicy& policy) {
    return DecideAll(exits, policy);
  };
  EXPECT_EQ(decide({kWorkerKilled, kChiefKilled}, one_left), Decision::kRestartJob);
  EXPECT_EQ(decide({kServerKilled, kWorkerKilled, other_killed}, one_left), Decision::kRestartJob);
  EXPECT_EQ(decide({kWorkerKilled, other_killed}, one_left), Decision::kRestartJob);
  EXPECT_EQ(decide({kWorkerKilled, other_killed}, {.restarts_left = 2}), Decision::kRestartWorker);
  EXPECT_EQ(decide({kWorkerKilled, other_killed}, {.survives_workers = true, .restarts_left = 1}),
            Decision::kRestartWorker);
  EXPECT_EQ(decide({kWorkerKilled, kChiefKilled}, {}), Decision::kEndJob);
  EXPECT_EQ(decide({kWorkerKilled, {{Role::kWorker, 2}, 2}}, one_left), Decision::kEndJob);
}

TEST(Policy, EndReasonNamesTheFlagThatHelps) {
  const auto why = [](const ProcessExit& exit, size_t restarts) {
    return EndReason(std::vector<ProcessExit>{exit}, restarts);
  };
  EXPECT_NE(why(kWorkerKilled, 0).find("--restart=N would restart it)"), std::string::npos);
  EXPECT_NE(why(kServerKilled, 0).find("from its last checkpoint"), std::string::npos);
  EXPECT_NE(why({{Role::kWorker, 0}, 1}, 0).find("if the cause is temporary"), std::string::npos);
  EXPECT_EQ(why(kServerKilled, 2), "; all restarts (--restart=2) are used up");
  EXPECT_EQ(why({{Role::kWorker, 1}, 2}, 2), "; the same command would fail again");
}

TEST(Policy, StatusTextNamesTheSignal) {
  EXPECT_EQ(StatusText(137), "was killed by SIGKILL");
  EXPECT_EQ(StatusText(139), "was killed by SIGSEGV");
  EXPECT_EQ(StatusText(130), "was interrupted (status 130)");
  EXPECT_EQ(StatusText(1), "exited with status 1");
  EXPECT_EQ(StatusText(127), "could not be started (status 127)");
  EXPECT_EQ(StatusText(255), "exited with status 255");
}

}  // namespace
}  // namespace millrace::launch
