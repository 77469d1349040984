// The decisions of millrace-launch: who runs where, with what words, and what a death means.

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/launch/plan/address.h"
#include "tools/launch/plan/command.h"
#include "tools/launch/plan/placement.h"
#include "tools/launch/plan/policy.h"
#include "tools/launch/rank_job.h"
#include "tools/launch/remote.h"

namespace millrace::tools {
namespace {

const Death kServerKilled = {{Role::kServer, 0}, 137};
const Death kChiefKilled = {{Role::kWorker, 0}, 137};
const Death kWorkerKilled = {{Role::kWorker, 1}, 137};

TEST(Placement, DeployModesHaveTheOldExperimentsShapes) {
  EXPECT_EQ(*ShapeOfDeployMode("single"), (JobShape{.num_ps = 0, .num_workers = 1}));
  EXPECT_EQ(*ShapeOfDeployMode("cluster"), (JobShape{.num_ps = 1, .num_workers = 2}));
  EXPECT_EQ(*ShapeOfDeployMode("cluster2"), (JobShape{.num_ps = 1, .num_workers = 3}));
  EXPECT_FALSE(ShapeOfDeployMode("cluster3").ok());
}

TEST(Placement, FirstServerSharesTheFirstHostWithTheChief) {
  const std::vector<PlacedProcess> placed = Place({.num_ps = 2, .num_workers = 3}, 2);
  ASSERT_EQ(placed.size(), 5u);
  const std::pair<std::string, size_t> expected[] = {
      {"ps 0", 0}, {"ps 1", 1}, {"worker 0", 0}, {"worker 1", 1}, {"worker 2", 0}};
  for (size_t i = 0; i < placed.size(); ++i) {
    EXPECT_EQ(NameOf(placed[i].id), expected[i].first);
    EXPECT_EQ(placed[i].host, expected[i].second);
  }
}

TEST(Placement, ShapesThatCannotBeAreRefused) {
  EXPECT_TRUE(CheckShape({.num_ps = 0, .num_workers = 1}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 0, .num_workers = 2}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 1, .num_workers = 0}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = 1, .num_workers = SIZE_MAX}).ok());
  EXPECT_FALSE(CheckShape({.num_ps = SIZE_MAX, .num_workers = 1}).ok());
}

TEST(RankJob, FirstRanksAreServers) {
  const JobShape shape = {.num_ps = 2, .num_workers = 2};
  EXPECT_EQ(NameOf(ProcessOfRank(1, shape)), "ps 1");
  EXPECT_EQ(NameOf(ProcessOfRank(2, shape)), "worker 0");
  EXPECT_EQ(NameOf(ProcessOfRank(3, shape)), "worker 1");
}

TEST(Address, AnnouncementIsTakenWordForWord) {
  EXPECT_EQ(AnnouncedPort("millrace-ps: shard 1 of 2 listening on 10.0.0.1:4711", 1, 2), 4711);
  EXPECT_EQ(AnnouncedPort("millrace-ps: shard 0 of 1 listening on [::1]:80", 0, 1), 80);
  for (const char* line : {"millrace-ps: shard 0 of 2 listening on 10.0.0.1:4711",
                           "millrace-ps: shard 1 of 3 listening on 10.0.0.1:4711",
                           " millrace-ps: shard 1 of 2 listening on 10.0.0.1:4711",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:0",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:65536",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:",
                           "millrace-ps: shard 1 of 2 listening on 10.0.0.1:80 ",
                           "millrace-ps: shard 1 of 2 listening on 80",
                           "millrace-ps: shard 1 of 2 listening on :80", ""}) {
    EXPECT_FALSE(AnnouncedPort(line, 1, 2)) << line;
  }
}

TEST(Address, Ipv6HostsGetBrackets) {
  EXPECT_EQ(JoinHostPort("node", 80), "node:80");
  EXPECT_EQ(JoinHostPort("::1", 0), "[::1]:0");
  EXPECT_TRUE(IsLoopback("127.0.1.1"));
  EXPECT_FALSE(IsLoopback("10.127.0.1"));
  EXPECT_EQ(HostOfDestination("me@node"), "node");
}

TEST(Command, FlagsAreFoundInEveryForm) {
  const Words command = {"lr", "--mode=sync", "-run_dir", "runs/1", "--mode", "async", "--resume"};
  EXPECT_EQ(FlagIn(command, "mode"), "async");
  EXPECT_EQ(FlagIn(command, "run_dir"), "runs/1");
  EXPECT_EQ(FlagIn(command, "resume"), "");
  EXPECT_EQ(FlagIn({"lr", "--run-dir=x"}, "run_dir"), "x");
  EXPECT_FALSE(FlagIn(command, "run"));
  EXPECT_FALSE(FlagIn({"--mode=sync"}, "mode")) << "the program's name is no flag";
}

TEST(Command, WordsAreSplitAsAShellWould) {
  EXPECT_EQ(*SplitWords("  ssh -p  2222 "), (Words{"ssh", "-p", "2222"}));
  EXPECT_EQ(*SplitWords("a 'b c' \"d 'e\" f\\ g ''"), (Words{"a", "b c", "d 'e", "f g", ""}));
  EXPECT_EQ(*SplitWords(""), Words{});
  EXPECT_FALSE(SplitWords("a 'b").ok());
}

TEST(Command, ServerGetsItsShardAndTheRunFolderOfTheCommand) {
  const JobFlags job = {
      .num_ps = 2, .num_workers = 3, .ps_hosts = {}, .worker_hosts = {}, .tls = {"--tls_ca=c"}};
  EXPECT_EQ(ServerCommand({"millrace-ps", "--x"}, {"lr", "--run_dir=r", "--profile"}, job, 1,
                          "127.0.0.1:0"),
            (Words{"millrace-ps", "--x", "--listen=127.0.0.1:0", "--num_ps=2", "--num_workers=3",
                   "--task_index=1", "--run_dir=r", "--profile", "--tls_ca=c"}));
  for (const char* off :
       {"--nobusy_poll", "--busy_poll=false", "--busy_poll=0", "--busy_poll=no"}) {
    EXPECT_EQ(ServerCommand({"millrace-ps"}, {"lr", off}, job, 1, "127.0.0.1:0")[5],
              "--busy_poll=false");
  }
}

TEST(Command, WorkerGetsItsPlaceInTheJob) {
  const JobFlags job = {.num_ps = 2,
                        .num_workers = 2,
                        .ps_hosts = {"a:1", "b:2"},
                        .worker_hosts = {"a", "b"},
                        .tls = {}};
  EXPECT_EQ(WorkerCommand({"lr", "--mode=sync"}, job, 1, Start::kFirst),
            (Words{"lr", "--mode=sync", "--job_name=worker", "--task_index=1", "--ps_hosts=a:1,b:2",
                   "--worker_hosts=a,b"}));
}

TEST(Command, StartingAgainAddsAFlagAndTakesOverwriteAway) {
  const Words command = {"lr", "--overwrite", "--run_dir=r"};
  const JobFlags alone;
  EXPECT_EQ(WorkerCommand(command, alone, 0, Start::kFirst), command);
  EXPECT_EQ(WorkerCommand(command, alone, 0, Start::kResume),
            (Words{"lr", "--run_dir=r", "--resume"}));
  const JobFlags job = {
      .num_ps = 1, .num_workers = 2, .ps_hosts = {}, .worker_hosts = {}, .tls = {}};
  const Words again = WorkerCommand(command, job, 1, Start::kRejoin);
  EXPECT_TRUE(FlagIn(again, "rejoin"));
  EXPECT_FALSE(FlagIn(again, "resume"));
  EXPECT_FALSE(FlagIn(again, "overwrite"));
}

TEST(Policy, SyncNeedsEveryWorker) {
  EXPECT_EQ(Judge(kWorkerKilled, {}), Verdict::kEndJob);
  EXPECT_EQ(Judge(kWorkerKilled, {.restarts_left = 1}), Verdict::kRestartWorker);
}

TEST(Policy, AsyncGoesOnWithoutAWorkerButNotWithoutChiefOrServer) {
  const FailurePolicy async = {.survives_workers = true};
  EXPECT_EQ(Judge(kWorkerKilled, async), Verdict::kGoOn);
  EXPECT_EQ(Judge(kChiefKilled, async), Verdict::kEndJob);
  EXPECT_EQ(Judge(kServerKilled, async), Verdict::kEndJob);
}

TEST(Policy, ServerAndChiefTakeTheWholeJobBack) {
  const FailurePolicy restart = {.restarts_left = 1};
  EXPECT_EQ(Judge(kServerKilled, restart), Verdict::kRestartJob);
  EXPECT_EQ(Judge(kChiefKilled, restart), Verdict::kRestartJob);
}

TEST(Policy, WhatWouldFailAgainIsNotStartedAgain) {
  for (const int status : {2, 126, 127}) {
    EXPECT_EQ(Judge({{Role::kWorker, 1}, status}, {.restarts_left = 5}), Verdict::kEndJob);
    EXPECT_EQ(Judge({{Role::kServer, 1}, status}, {.restarts_left = 5}), Verdict::kEndJob);
  }
}

TEST(Policy, NothingIsStartedAgainWhenTheModelIsSaved) {
  const FailurePolicy done = {.is_chief_done = true, .restarts_left = 5};
  EXPECT_EQ(Judge(kServerKilled, done), Verdict::kGoOn);
  EXPECT_EQ(Judge(kWorkerKilled, done), Verdict::kGoOn);
}

TEST(Policy, TheSameLastWordsAgainAreNotTriedAgain) {
  const Death damaged = {{Role::kWorker, 1}, 1, "millrace-lr: a.tfrecord: damaged at 7"};
  const std::vector<Death> earlier = {damaged, {{Role::kServer, 0}, 137, "same"}};
  const auto is_repeat = [&](std::vector<Death> deaths) {
    MarkRepeat(deaths, earlier);
    return std::any_of(deaths.begin(), deaths.end(), [](const Death& d) { return d.is_repeat; });
  };
  EXPECT_TRUE(is_repeat({damaged}));
  EXPECT_TRUE(is_repeat({damaged, {{Role::kWorker, 2}, 1, "gave up"}})) << "it came first";
  EXPECT_FALSE(is_repeat({}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 1}, 1, "millrace-lr: a.tfrecord: damaged at 8"}}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 2}, 1, damaged.last_words}}));
  EXPECT_FALSE(is_repeat({{{Role::kWorker, 1}, 1}})) << "nothing was said";
  EXPECT_FALSE(is_repeat({{{Role::kServer, 0}, 137, "same"}})) << "it was killed";
  EXPECT_FALSE(is_repeat({damaged, {{Role::kServer, 0}, 137, ""}})) << "it gave up because of it";
  Death again = damaged;
  again.is_repeat = true;
  EXPECT_EQ(Judge(again, {.restarts_left = 5}), Verdict::kEndJob);
  EXPECT_EQ(Judge(again, {.survives_workers = true, .restarts_left = 5}), Verdict::kGoOn);
  EXPECT_EQ(WhyItEnds(std::vector<Death>{again}, 5),
            "; it failed in the same way before it was started again");
}

TEST(Policy, RootCauseIsTheKilledOneThenTheServerThenTheFirst) {
  const Death worker_failed = {{Role::kWorker, 2}, 1}, server_failed = {{Role::kServer, 1}, 1};
  const Death other_failed = {{Role::kWorker, 0}, 1};
  const auto root = [](std::vector<Death> deaths) { return NameOf(RootCause(deaths).id); };
  EXPECT_EQ(root({worker_failed, server_failed, kWorkerKilled}), "worker 1");
  EXPECT_EQ(root({worker_failed, kWorkerKilled, kServerKilled}), "ps 0");
  EXPECT_EQ(root({worker_failed, server_failed}), "ps 1");
  EXPECT_EQ(root({worker_failed, other_failed}), "worker 2");
}

TEST(Policy, OneRestartOfTheJobServesForAllThatDiedTogether) {
  const Death other_killed = {{Role::kWorker, 2}, 137};
  const FailurePolicy one_left = {.restarts_left = 1};
  const auto judge = [](std::vector<Death> deaths, const FailurePolicy& policy) {
    return JudgeAll(deaths, policy);
  };
  EXPECT_EQ(judge({kWorkerKilled, kChiefKilled}, one_left), Verdict::kRestartJob);
  EXPECT_EQ(judge({kServerKilled, kWorkerKilled, other_killed}, one_left), Verdict::kRestartJob);
  EXPECT_EQ(judge({kWorkerKilled, other_killed}, one_left), Verdict::kRestartJob);
  EXPECT_EQ(judge({kWorkerKilled, other_killed}, {.restarts_left = 2}), Verdict::kRestartWorker);
  EXPECT_EQ(judge({kWorkerKilled, other_killed}, {.survives_workers = true, .restarts_left = 1}),
            Verdict::kRestartWorker);
  EXPECT_EQ(judge({kWorkerKilled, kChiefKilled}, {}), Verdict::kEndJob);
  EXPECT_EQ(judge({kWorkerKilled, {{Role::kWorker, 2}, 2}}, one_left), Verdict::kEndJob);
}

TEST(Policy, TheEndSaysWhatWouldHaveHelped) {
  const auto why = [](Death death, size_t restarts) {
    return WhyItEnds(std::vector<Death>{death}, restarts);
  };
  EXPECT_NE(why(kWorkerKilled, 0).find("--restart=N would start it again)"), std::string::npos);
  EXPECT_NE(why(kServerKilled, 0).find("from its last checkpoint"), std::string::npos);
  EXPECT_NE(why({{Role::kWorker, 0}, 1}, 0).find("if the cause may pass"), std::string::npos);
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

TEST(Remote, NoShellSeesMoreThanOneWord) {
  EXPECT_EQ(ShellQuoted("it's $HOME"), "'it'\\''s $HOME'");
  const Words words = RemoteCommand({"/usr/bin/ssh", "-p", "22"}, "me@node", {"/a b/x", "--keep"});
  EXPECT_EQ(words.back(), "'/a b/x' '--keep'");
  EXPECT_EQ(words[words.size() - 2], "me@node");
  EXPECT_EQ(words[2], "22");
  EXPECT_NE(std::find(words.begin(), words.end(), "BatchMode=yes"), words.end());
  EXPECT_EQ(RemoteCommand({"./rsh"}, "node", {"x"}), (Words{"./rsh", "node", "'x'"}));
}

TEST(Remote, LoopbackServersAreNoneForOtherHosts) {
  LaunchOptions options;
  options.shape = {.num_ps = 1, .num_workers = 2};
  options.hosts = {"localhost", "node"};
  const HostReport here = {.info = {}, .address = "127.0.0.1", .problems = {}};
  const HostReport there = {.info = {}, .address = "10.0.0.2", .problems = {}};
  EXPECT_FALSE(CheckAddresses(options, {here, there}).ok());
  EXPECT_TRUE(CheckAddresses(options, {there, here}).ok());
  EXPECT_TRUE(CheckAddresses(options, {here, here}).ok());
}

TEST(HostReport, SurvivesTheNoiseOfALogin) {
  const HostReport report = {
      .info = {.name = "node", .cpu = "Some CPU", .cores = 4, .memory_bytes = 8000000000},
      .address = "10.0.0.2",
      .problems = {"no folder", "no program"}};
  std::vector<std::string> lines = {"Welcome!", ""};
  std::string text = FormatReport(report);
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.erase(0, lines.back().size() + 1);
  }
  const Result<HostReport> read = ParseReport(lines);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->info.name, "node");
  EXPECT_EQ(read->info.cpu, "Some CPU");
  EXPECT_EQ(read->info.memory_bytes, 8000000000u);
  EXPECT_EQ(read->problems, report.problems);
  lines.pop_back();
  EXPECT_FALSE(ParseReport(lines).ok()) << "a report that was cut off is none";
  EXPECT_EQ(HostTable({report}),
            "host  address   cores  memory  cpu\nnode  10.0.0.2  4      8 GB    Some CPU\n");
}

}  // namespace
}  // namespace millrace::tools
