// SPDX-License-Identifier: Apache-2.0
// Jobs whose ranks are started by mpirun or srun. mpirun is the real program; for srun the tests
// set its environment variables.

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/support/launch_fixture.h"
#include "tests/support/program.h"

namespace millrace::launch {
namespace {

using test::kReadWorkerFlags;
using test::LaunchTest;
using test::Program;
using test::ProgramRun;
using test::RunShell;

namespace fs = std::filesystem;

class RanksTest : public LaunchTest {
 protected:
  std::vector<std::string> Words(const std::string& server, const std::string& worker,
                                 const std::string& mode) const {
    return {Launcher(),   "--ps_program=" + server, "--rendezvous=" + folder_ / "meet",
            "--num_ps=2", "--start_timeout=30",     "--",
            worker,       "--mode=" + mode};
  }

  // Starts one rank of a job with the environment of srun.
  std::unique_ptr<Program> StartRank(int rank, int size, const std::vector<std::string>& words) {
    std::vector<std::string> line = {"/usr/bin/env",
                                     "-u",
                                     "OMPI_COMM_WORLD_RANK",
                                     "SLURM_JOB_ID=77",
                                     "SLURM_STEP_ID=0",
                                     "SLURM_NNODES=1",
                                     "SLURM_PROCID=" + std::to_string(rank),
                                     "SLURM_NTASKS=" + std::to_string(size)};
    line.insert(line.end(), words.begin(), words.end());
    return std::make_unique<Program>(line, folder_.path(),
                                     folder_ / ("rank" + std::to_string(rank)));
  }

  // The words that start four ranks under mpirun with a fixed job id.
  std::vector<std::string> MpirunWords(const std::vector<std::string>& command) const {
    std::vector<std::string> words = {
        "/usr/bin/env", "mpirun", "--allow-run-as-root", "--oversubscribe",
        "-n",           "4",      "/usr/bin/env",        "PMIX_NAMESPACE=77"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  // The pids of all processes of this test that run the launcher's program, shims included.
  std::string LauncherPids() const {
    return RunShell("for p in /proc/[0-9]*; do [ \"$(readlink $p/exe)\" = " + Launcher() +
                    " ] && [ \"$(readlink $p/cwd)\" = " + folder_.path() +
                    " ] && echo ${p#/proc/}; done; true")
        .out;
  }

  std::string Worker() const {
    return Script("w", std::string(kReadWorkerFlags) +
                           "echo \"words: $*\"; touch seen-$i\n"
                           "while [ ! -e seen-0 ] || [ ! -e seen-1 ]; do sleep 0.01; done\n"
                           "touch done\n");
  }
};

TEST_F(RanksTest, MpirunStartsServersAndWorkers) {
  if (RunShell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
  std::vector<std::string> words = {"/usr/bin/env",    "mpirun", "--allow-run-as-root",
                                    "--oversubscribe", "-n",     "4"};
  for (const std::string& word : Words(Server(), Worker(), "sync")) words.push_back(word);
  Program job(words, folder_.path(), folder_ / "log");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("--ps_hosts=127.0.0.1:20000,127.0.0.1:20001 --worker_hosts=127.0.0.1,"
                      "127.0.0.1 --token_file="),
            2u)
      << job.output();
  EXPECT_EQ(job.Count("worker 1 | words: --mode=sync --job_name=worker --task_index=1"), 1u);
  EXPECT_TRUE(fs::is_empty(folder_ / "meet")) << "the folder of the job is removed";
}

// A container or a batch system can start a job again under the same id.
TEST_F(RanksTest, KilledJobCanBeStartedAgainWithTheSameId) {
  if (RunShell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
  const std::string sleeping = Script("s", "echo up; exec sleep 1000\n");
  {
    Program job(MpirunWords(Words(Server(), sleeping, "sync")), folder_.path(), folder_ / "log");
    ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
    const std::string pids = LauncherPids();
    ASSERT_GE(std::count(pids.begin(), pids.end(), '\n'), 8) << pids;
    std::istringstream lines(pids);
    for (std::string pid; std::getline(lines, pid);) KillPid(pid);
    EXPECT_NE(job.Wait(), 0);
  }
  ASSERT_TRUE(WaitForProcesses(0));
  EXPECT_TRUE(fs::exists(folder_ / "meet/job-mpirun_77")) << "the notes of the killed job";
  EXPECT_EQ(RunShell("grep -rl . " + folder_ / "meet" + " --include=token").out, "")
      << "the token is removed when all ranks have started";
  Program again(MpirunWords(Words(Server(), Worker(), "sync")), folder_.path(), folder_ / "log2");
  EXPECT_EQ(again.Wait(), 0) << again.output();
  EXPECT_TRUE(fs::is_empty(folder_ / "meet")) << "the notes of both starts are removed";
}

// Ranks that find the address and the token of servers that were killed must not use them.
TEST_F(RanksTest, RequeuedJobIgnoresTheNotesOfKilledRanks) {
  const std::string copy_token =
      "for word; do case $word in --token_file=*) cat ${word#*=} > token-$role-$i;; esac; done\n";
  const std::string server = Script("ps", std::string(test::kReadServerFlags) + "role=ps\n" +
                                              copy_token + test::kListen + test::kServeUntilDone);
  const std::string worker = Script(
      "w", std::string(kReadWorkerFlags) + "role=worker\n" + copy_token +
               "while [ ! -e token-worker-0 ] || [ ! -e token-worker-1 ]; do sleep 0.01; done\n"
               "touch done\n");
  const std::vector<std::string> words = Words(server, worker, "sync");
  std::vector<std::unique_ptr<Program>> ranks(4);
  for (const int rank : {0, 1}) ranks[rank] = StartRank(rank, 4, words);
  for (const int rank : {0, 1}) ASSERT_TRUE(ranks[rank]->WaitForOutput("listening"));
  for (const int rank : {0, 1}) ranks[rank]->Signal(SIGKILL);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank]->Wait(), 137);
  ASSERT_TRUE(WaitForProcesses(0));
  // Rank 0, which knows the new token, comes last.
  for (const int rank : {3, 2, 1}) ranks[rank] = StartRank(rank, 4, words);
  ASSERT_TRUE(test::WaitUntil([&] {
    return fs::exists(folder_ / "meet/job-srun_77.0/hello-3") ||
           fs::exists(folder_ / "token-worker-1");
  }));
  ranks[0] = StartRank(0, 4, words);
  for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << rank->output();
  const std::string token = test::ReadFile(folder_ / "token-ps-0");
  for (const char* other : {"token-ps-1", "token-worker-0", "token-worker-1"})
    EXPECT_EQ(test::ReadFile(folder_ / other), token) << other;
  EXPECT_TRUE(fs::is_empty(folder_ / "meet"));
}

TEST_F(RanksTest, FolderThatOthersCanReadIsRefused) {
  fs::create_directories(folder_ / "meet/job-srun_77.0");
  fs::permissions(folder_ / "meet/job-srun_77.0",
                  fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  const auto rank = StartRank(0, 4, Words(Server(), Worker(), "sync"));
  EXPECT_EQ(rank->Wait(), 2);
  EXPECT_EQ(rank->Count("meet/job-srun_77.0: expected a folder that only its owner can use"), 1u)
      << rank->output();
}

TEST_F(RanksTest, MpirunEndsAJobWhoseWorkerFails) {
  if (RunShell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) + "[ $i = 1 ] && exit 6\nexec sleep 100\n");
  std::vector<std::string> words = {"/usr/bin/env",    "mpirun", "--allow-run-as-root",
                                    "--oversubscribe", "-n",     "4"};
  for (const std::string& word : Words(Server(), worker, "sync")) words.push_back(word);
  Program job(words, folder_.path(), folder_ / "log");
  EXPECT_EQ(job.Wait(), 6) << job.output();
  EXPECT_GE(job.Count("exited with status 6"), 1u) << job.output();
}

TEST_F(RanksTest, SrunRanksMeetInAnyOrder) {
  const std::vector<std::string> words = Words(Server(), Worker(), "sync");
  std::vector<std::unique_ptr<Program>> ranks(4);
  for (const int rank : {3, 1, 0, 2}) ranks[rank] = StartRank(rank, 4, words);
  for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << rank->output();
  EXPECT_EQ(ranks[2]->Count("\nworker 1  "), 1u) << "the chief shows the placement";
  EXPECT_EQ(ranks[3]->Count("\nworker 1  "), 0u);
  EXPECT_TRUE(fs::is_empty(folder_ / "meet"));
}

TEST_F(RanksTest, MissingRankIsNamed) {
  std::vector<std::string> words = Words(Server(), Worker(), "sync");
  words.insert(words.begin() + 1, "--start_timeout=1");
  std::erase(words, "--start_timeout=30");
  const auto rank = StartRank(2, 4, words);
  EXPECT_EQ(rank->Wait(), 1);
  EXPECT_EQ(rank->Count("(--start_timeout) from rank 0"), 2u) << rank->output();
}

TEST_F(RanksTest, FailureOfARankStopsTheOtherRanks) {
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) +
                      "echo up; [ $i = 1 ] && while [ ! -e fail ]; do sleep 0.01; done && exit 6\n"
                      "exec sleep 100\n");
  const std::vector<std::string> words = Words(Server(), worker, "sync");
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(StartRank(rank, 4, words));
  for (const int rank : {2, 3})
    ASSERT_TRUE(ranks[rank]->WaitForOutput("| up")) << ranks[rank]->output();
  test::WriteFile(folder_ / "fail", "");
  EXPECT_EQ(ranks[3]->Wait(), 6);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(ranks[rank]->Wait(), 6) << "the status of the first failure";
    EXPECT_EQ(ranks[rank]->Count("exited with status 6: "), 1u) << ranks[rank]->output();
  }
}

TEST_F(RanksTest, AsyncRanksContinueWithoutAWorker) {
  const std::string worker = Script(
      "w", std::string(kReadWorkerFlags) +
               "[ $i = 1 ] && exit 6\nwhile [ ! -e end ]; do sleep 0.01; done\ntouch done\n");
  const std::vector<std::string> words = Words(Server(), worker, "async");
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(StartRank(rank, 4, words));
  EXPECT_EQ(ranks[3]->Wait(), 6);
  test::WriteFile(folder_ / "end", "");
  for (const int rank : {0, 1, 2}) EXPECT_EQ(ranks[rank]->Wait(), 0) << ranks[rank]->output();
}

TEST_F(RanksTest, UsageErrorsAreReported) {
  const std::pair<std::string, std::string> cases[] = {
      {"SLURM_PROCID=0 SLURM_NTASKS=3 L --deploy_mode=cluster2 --rendezvous=r -- /bin/true",
       "1 servers and 3 workers, but srun has started 3 ranks"},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 L --deploy_mode=cluster2 -- /bin/true",
       "expected --rendezvous=DIR"},
      {"SLURM_STEP_ID=1 SLURM_PROCID=0 SLURM_NTASKS=4 L --deploy_mode=cluster2 -- /bin/true",
       "expected --rendezvous=DIR"},
      {"SLURM_PROCID=4 SLURM_NTASKS=4 L --rendezvous=r -- /bin/true", "expected less than"},
      {"SLURM_PROCID=x SLURM_NTASKS=4 L --rendezvous=r -- /bin/true", "expected a number"},
      {"SLURM_PROCID=0 SLURM_NTASKS=4 L --rendezvous=r --hosts=a -- /bin/true", "expected one of"},
      {"SLURM_PROCID=0 SLURM_NTASKS=4 L --rendezvous=r --restart=1 -- /bin/true --run_dir=x",
       "expected no --restart"},
  };
  for (const auto& [line, message] : cases) {
    std::string command = line;
    command.replace(command.find(" L "), 3, " " + Launcher() + " --ps_program=/bin/true ");
    const ProgramRun run =
        RunShell("cd " + folder_.path() + "; unset OMPI_COMM_WORLD_RANK SLURM_PROCID; " + command);
    EXPECT_EQ(run.status, 2) << line;
    EXPECT_NE(run.err.find(message), std::string::npos) << line << "\n" << run.err;
  }
}

}  // namespace
}  // namespace millrace::launch
