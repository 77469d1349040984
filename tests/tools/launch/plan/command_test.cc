// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/plan/command.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::launch {
namespace {

TEST(Command, FlagsAreFoundInEveryForm) {
  const Words command = {"lr", "--mode=sync", "-run_dir", "runs/1", "--mode", "async", "--resume"};
  EXPECT_EQ(FlagIn(command, "mode"), "async");
  EXPECT_EQ(FlagIn(command, "run_dir"), "runs/1");
  EXPECT_EQ(FlagIn(command, "resume"), "");
  EXPECT_EQ(FlagIn({"lr", "--run-dir=x"}, "run_dir"), "x");
  EXPECT_FALSE(FlagIn(command, "run"));
  EXPECT_FALSE(FlagIn({"--mode=sync"}, "mode")) << "the name of the program is not a flag";
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
}

TEST(Command, WorkerGetsItsIndexAndTheHosts) {
  const JobFlags job = {.num_ps = 2,
                        .num_workers = 2,
                        .ps_hosts = {"a:1", "b:2"},
                        .worker_hosts = {"a", "b"},
                        .tls = {}};
  EXPECT_EQ(WorkerCommand({"lr", "--mode=sync"}, job, 1, Start::kFirst),
            (Words{"lr", "--mode=sync", "--job_name=worker", "--task_index=1", "--ps_hosts=a:1,b:2",
                   "--worker_hosts=a,b"}));
}

TEST(Command, RestartAddsAFlagAndRemovesOverwrite) {
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

TEST(Command, RemoteShellGetsEachWordQuoted) {
  EXPECT_EQ(ShellQuoted("it's $HOME"), "'it'\\''s $HOME'");
  const Words words = RemoteCommand({"/usr/bin/ssh", "-p", "22"}, "me@node", {"/a b/x", "--flag"});
  EXPECT_EQ(words.back(), "'/a b/x' '--flag'");
  EXPECT_EQ(words[words.size() - 2], "me@node");
  EXPECT_EQ(words[2], "22");
  EXPECT_NE(std::find(words.begin(), words.end(), "BatchMode=yes"), words.end());
  EXPECT_EQ(RemoteCommand({"./rsh"}, "node", {"x"}), (Words{"./rsh", "node", "'x'"}));
}

}  // namespace
}  // namespace millrace::launch
