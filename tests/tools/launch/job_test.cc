// SPDX-License-Identifier: Apache-2.0
// millrace-launch with shell scripts as servers and workers: real processes and signals.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <sstream>

#include "tests/support/launch_fixture.h"
#include "tests/support/program.h"

namespace millrace::launch {
namespace {

using test::kListen;
using test::kReadServerFlags;
using test::kReadWorkerFlags;
using test::kServeUntilDone;
using test::LaunchTest;
using test::Program;
using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

namespace fs = std::filesystem;
using std::chrono::steady_clock;

TEST_F(LaunchTest, SingleRunsTheCommandUnchanged) {
  Program job = Launch({"--deploy_mode=single"},
                       {Script("w", "echo \"words: $*\"; echo bad >&2; exit 7\n"), "--a", "b c"});
  EXPECT_EQ(job.Wait(), 7);
  EXPECT_EQ(job.Count("worker 0 | words: --a b c\n"), 1u) << job.output();
  EXPECT_EQ(job.Count("worker 0 | bad\n"), 1u);
  EXPECT_EQ(job.Count("exited with status 7"), 2u) << "immediately and at the end";
  EXPECT_EQ(job.Count("ps 0"), 0u);
}

TEST_F(LaunchTest, ClusterPassesServersAndTokenToWorkers) {
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) +
                      "for word; do case $word in --token_file=*) t=${word#*=};; esac; done\n"
                      "echo \"words: $*\"\n"
                      "stat -L -c 'mode %a' $t; cp $t token-$i; echo $t > path-$i\n"
                      "while [ ! -s token-0 ] || [ ! -s token-1 ]; do sleep 0.01; done\n"
                      "touch done\n");
  Program job = Launch({"--deploy_mode=cluster", "--ps_program=" + Server(), "--tls_ca=ca.pem"},
                       {worker, "--mode=sync"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count(" --mode=sync --job_name=worker --task_index=1 --ps_hosts=127.0.0.1:20000 "
                      "--worker_hosts=127.0.0.1,127.0.0.1 --tls_ca=ca.pem --token_file="),
            1u)
      << job.output();
  EXPECT_EQ(job.Count("mode 600"), 2u);
  const std::string token = test::ReadFile(folder_ / "token-0");
  EXPECT_EQ(token.size(), 65u);
  EXPECT_EQ(test::ReadFile(folder_ / "token-1"), token);
  EXPECT_EQ(job.output().find(token.substr(0, 64)), std::string::npos) << "not on a command line";
  for (const std::string path : {"path-0", "path-1"}) {
    const std::string file = test::ReadFile(folder_ / path);
    EXPECT_FALSE(fs::exists(file.substr(0, file.size() - 1))) << "the token is removed";
  }
  // The tables come before all lines of processes.
  const std::string output = job.output();
  EXPECT_LT(output.find("host"), output.find("\nps 0      "));
  EXPECT_LT(output.find("\nworker 1  "), output.find("ps 0     | "));
}

TEST_F(LaunchTest, ServerThatDoesNotListenIsNamed) {
  const std::string server =
      Script("ps", std::string(kReadServerFlags) + "[ $i = 1 ] && exec sleep 100\n" + kListen +
                       kServeUntilDone);
  Program job =
      Launch({"--num_ps=3", "--num_workers=1", "--start_timeout=2", "--ps_program=" + server},
             {Script("w", "echo started\n"), "--mode=sync"});
  EXPECT_EQ(job.Wait(), 1);
  EXPECT_EQ(job.Count("ps 1 on"), 2u) << job.output();
  EXPECT_EQ(job.Count("ps 0 on"), 0u);
  EXPECT_EQ(job.Count("worker 0 | started"), 0u);
}

TEST_F(LaunchTest, ServerThatFailsAtTheStartEndsTheJob) {
  const std::string server = Script("ps", "echo 'no room' >&2; exit 3\n");
  Program job =
      Launch({"--deploy_mode=cluster2", "--ps_program=" + server}, {"/bin/true", "--mode=sync"});
  EXPECT_EQ(job.Wait(), 3);
  EXPECT_EQ(job.Count("ps 0     | no room"), 1u) << job.output();
  Program early =
      Launch({"--deploy_mode=cluster2", "--ps_program=/bin/true"}, {"/bin/true", "--mode=sync"});
  EXPECT_EQ(early.Wait(), 1) << "exit status 0, but it never listened";
}

TEST_F(LaunchTest, SyncJobEndsSoonAfterAWorkerIsKilled) {
  // The other processes ignore SIGTERM and SIGINT.
  const std::string worker =
      Script("w", "trap '' TERM INT; echo up; while :; do sleep 0.05; done\n");
  const std::string server = Script(
      "ps", std::string("trap '' TERM INT\n") + kReadServerFlags + kListen + kServeUntilDone);
  Program job =
      Launch({"--deploy_mode=cluster2", "--ps_program=" + server}, {worker, "--mode=sync"});
  ASSERT_TRUE(job.WaitForOutput("| up", 3)) << job.output();
  const auto begin = steady_clock::now();
  Kill(job, "worker 1");
  EXPECT_EQ(job.Wait(), 137);
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(job.Count(") was killed by SIGKILL: stopping the job"), 1u) << job.output();
  EXPECT_EQ(job.Count("failed after"), 1u);
}

TEST_F(LaunchTest, AsyncJobContinuesWithoutAWorker) {
  const std::string worker = Script(
      "w", std::string(kReadWorkerFlags) +
               "echo up; [ $i = 1 ] && exec sleep 100\nwhile [ ! -e end ]; do sleep 0.01; done\n"
               "echo finished; touch done\n");
  Program job =
      Launch({"--deploy_mode=cluster2", "--ps_program=" + Server()}, {worker, "--mode=async"});
  ASSERT_TRUE(job.WaitForOutput("| up", 3)) << job.output();
  Kill(job, "worker 1");
  ASSERT_TRUE(job.WaitForOutput("was killed by SIGKILL: the other processes continue without it"))
      << job.output();
  test::WriteFile(folder_ / "end", "");
  EXPECT_EQ(job.Wait(), 137) << "the exit status of the lost worker";
  EXPECT_EQ(job.Count("| finished"), 2u);
  EXPECT_EQ(job.Count("worker 1 was lost after"), 1u) << job.output();
  EXPECT_EQ(job.Count("done after"), 1u);
  EXPECT_EQ(job.Count(" s, without 1 of 3 workers"), 1u) << job.output();
}

TEST_F(LaunchTest, RestartedWorkerRejoins) {
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) +
                      "echo \"words: $*\"\n"
                      "if [ $i = 1 ] && [ ! -e killed ]; then touch killed; kill -9 $$; fi\n"
                      "[ $i = 1 ] && touch done\nwhile [ ! -e done ]; do sleep 0.01; done\n");
  Program job = Launch({"--deploy_mode=cluster", "--restart=1", "--ps_program=" + Server()},
                       {worker, "--mode=sync", "--run_dir=r", "--overwrite"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("worker 1 | words: --mode=sync --run_dir=r --rejoin "), 1u) << job.output();
  EXPECT_EQ(job.Count("--rejoin"), 1u);
  EXPECT_EQ(job.Count("restart 1 of 1"), 1u);
}

TEST_F(LaunchTest, KilledServerRestartsTheWholeJobFromItsCheckpoint) {
  const std::string server = Script(
      "ps", std::string(kReadServerFlags) + kListen + "echo \"words: $*\"\n" + kServeUntilDone);
  const std::string worker =
      Script("w",
             "mkdir -p r; touch r/run.json; echo \"words: $*\"; echo up\n"
             "case \"$*\" in *--resume*) touch done;; *) exec sleep 100;; esac\n");
  Program job = Launch({"--deploy_mode=cluster", "--restart=2", "--ps_program=" + server},
                       {worker, "--mode=async", "--run_dir=r", "--overwrite"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  Kill(job, "ps 0");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("| words: --mode=async --run_dir=r --resume "), 2u) << job.output();
  EXPECT_EQ(job.Count("was killed by SIGKILL: restarting the whole job"), 1u);
  EXPECT_EQ(job.Count("--task_index=0 --run_dir=r"), 2u) << "the server, twice";
}

// The run folder then holds another run.
TEST_F(LaunchTest, JobThatLosesAServerBeforeItBeginsIsNotResumed) {
  std::filesystem::create_directory(folder_ / "r");
  test::WriteFile(folder_ / "r/run.json", "an earlier run");
  const std::string worker = Script("w",
                                    "echo \"words: $*\"; echo up\n"
                                    "[ -e again ] && touch done || exec sleep 100\n");
  Program job = Launch({"--deploy_mode=cluster", "--restart=2", "--ps_program=" + Server()},
                       {worker, "--mode=async", "--run_dir=r", "--overwrite"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  test::WriteFile(folder_ / "again", "");
  Kill(job, "ps 0");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("--overwrite"), 4u) << job.output();
  EXPECT_EQ(job.Count("--resume"), 0u) << job.output();
  EXPECT_EQ(job.Count("restarting the whole job from the beginning"), 1u) << job.output();
}

TEST_F(LaunchTest, CrashLoopIsBounded) {
  const std::string worker = Script("w", "echo run >> runs; exit 9\n");
  Program job = Launch({"--deploy_mode=single", "--restart=2"}, {worker, "--run_dir=r"});
  EXPECT_EQ(job.Wait(), 9);
  EXPECT_EQ(test::ReadFile(folder_ / "runs"), "run\nrun\nrun\n");
  EXPECT_EQ(job.Count("all restarts (--restart=2) are used up"), 1u) << job.output();
  Program permanent =
      Launch({"--deploy_mode=single", "--restart=2"}, {"/bin/sh", "-c", "exit 2", "--run_dir=r"});
  EXPECT_EQ(permanent.Wait(), 2);
  EXPECT_EQ(permanent.Count("the same command would fail again"), 1u) << permanent.output();
}

// The worker counts the descriptors, threads and children of the launcher.
TEST_F(LaunchTest, RestartsCostTheLauncherNothing) {
  const std::string worker =
      Script("w",
             "launcher=$(cut -d' ' -f4 /proc/$PPID/stat)\n"
             "echo $(ls /proc/$launcher/fd | wc -l) $(ls /proc/$launcher/task | wc -l) "
             "$(wc -w < /proc/$launcher/task/$launcher/children) >> counts\n"
             "echo \"failure of process $$\" >&2; exit 9\n");
  Program job = Launch({"--deploy_mode=single", "--restart=30"}, {worker, "--run_dir=r"});
  EXPECT_EQ(job.Wait(), 9);
  std::istringstream counts(test::ReadFile(folder_ / "counts"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(counts, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 31u) << job.output();
  EXPECT_EQ(lines.back(), lines.front()) << "descriptors, threads, children";
}

TEST_F(LaunchTest, ServerKilledAfterTheModelIsSavedDoesNotFailTheJob) {
  // Worker 1 exits after the kill, which therefore happens while the job runs.
  const std::string worker = Script("w", std::string(kReadWorkerFlags) +
                                             "[ $i = 0 ] && echo saved && exit 0\n"
                                             "while [ ! -e end ]; do sleep 0.01; done\n");
  for (const std::string first : {"ps 0", "worker 1"}) {
    SCOPED_TRACE(first);
    fs::remove(folder_ / "end");
    Program job =
        Launch({"--num_ps=2", "--num_workers=2", "--server_grace=0.2", "--ps_program=" + Server()},
               {worker, "--mode=sync"});
    ASSERT_TRUE(job.WaitForOutput("| saved")) << job.output();
    Kill(job, first);
    ASSERT_TRUE(job.WaitForOutput(
        ") was killed by SIGKILL after worker 0 had finished: the result is complete"))
        << job.output();
    test::WriteFile(folder_ / "end", "");
    EXPECT_EQ(job.Wait(), 0) << job.output();
    EXPECT_EQ(job.Count("millrace-launch: " + first + " (pid "), 1u) << job.output();
    EXPECT_EQ(job.Count("millrace-launch: done after"), 1u) << job.output();
    EXPECT_EQ(job.Count("without"), 0u) << job.output();
  }
}

TEST_F(LaunchTest, ServerThatFailsAfterAllWorkersDoesNotFailTheJob) {
  const std::string server =
      Script("ps", std::string(kReadServerFlags) + kListen + kServeUntilDone + "exit 3\n");
  Program job = Launch({"--deploy_mode=cluster", "--ps_program=" + server},
                       {Script("w", "touch done\n"), "--mode=sync"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("exited with status 3 after worker 0 had finished: the result is complete"),
            1u)
      << job.output();
}

// A worker that the servers do not accept exits with status 2, like one with a wrong flag.
TEST_F(LaunchTest, WorkerThatIsRefusedAfterTheBeginIsRestarted) {
  const std::string worker = Script(
      "w",
      std::string(kReadWorkerFlags) +
          "mkdir -p r; [ $i = 0 ] && echo $$ > r/run.json; echo \"words: $*\"\n"
          "while [ ! -s r/run.json ]; do sleep 0.01; done\n"
          "case \"$*\" in *--resume*) touch done;; esac\n"
          "if [ $i = 1 ] && [ ! -e done ]; then echo 'has a newer connection' >&2; exit 2; fi\n"
          "while [ ! -e done ]; do sleep 0.01; done\n");
  Program job = Launch({"--deploy_mode=cluster", "--restart=3", "--ps_program=" + Server()},
                       {worker, "--mode=sync", "--run_dir=r"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("exited with status 2: restarting it to rejoin (restart 1 of 3)"), 1u)
      << job.output();
  EXPECT_EQ(job.Count("exited with status 2: restarting the whole job from its last checkpoint "
                      "(restart 2 of 3)"),
            1u)
      << job.output();
}

TEST_F(LaunchTest, ControlCharactersOfACommandAreEscaped) {
  const ProgramRun run = RunProgram("millrace-launch", "\"$(printf '\\033[31m')\" -- /bin/true");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err.find('\x1b'), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("\\x1b[31m"), std::string::npos) << run.err;
}

// The shims cannot clean up: they are killed too.
TEST_F(LaunchTest, KilledShimsLeaveNoToken) {
  fs::create_directory(folder_ / "tmp");
  const std::string worker = Script("w", "echo shim $PPID; echo up; exec sleep 1000\n");
  std::vector<std::string> words = {"/usr/bin/env",
                                    "TMPDIR=" + folder_ / "tmp",
                                    Launcher(),
                                    "--deploy_mode=cluster",
                                    "--ps_program=" + Server(),
                                    "--",
                                    worker,
                                    "--mode=sync"};
  Program job(words, folder_.path(), folder_ / "log");
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  const std::string output = job.output();
  job.Signal(SIGSTOP);
  for (size_t at = 0; (at = output.find("| shim ", at)) != std::string::npos; at += 7)
    KillPid(output.substr(at + 7));
  job.Signal(SIGKILL);
  EXPECT_EQ(job.Wait(), 137);
  EXPECT_TRUE(WaitForProcesses(0));
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(LaunchTest, CtrlCLetsWorkersSaveBeforeServersExit) {
  const std::string worker =
      Script("w", std::string(kReadWorkerFlags) +
                      "trap 'sleep 0.2; echo saved; touch saved-$i; exit 130' INT\n"
                      "echo up; while :; do sleep 0.05; done\n");
  const std::string server = Script(
      "ps", std::string(kReadServerFlags) + "trap 'echo too early' INT TERM\n" + kListen +
                "while [ ! -e saved-0 ] || [ ! -e saved-1 ]; do sleep 0.01; done\necho over\n");
  Program job =
      Launch({"--deploy_mode=cluster", "--ps_program=" + server}, {worker, "--mode=sync"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130);
  EXPECT_EQ(job.Count("| saved"), 2u) << job.output();
  EXPECT_EQ(job.Count("ps 0     | over"), 1u);
  EXPECT_EQ(job.Count("too early"), 0u);
}

TEST_F(LaunchTest, SecondCtrlCAndTheTimeLimitKill) {
  const std::string worker =
      Script("w", "trap '' INT TERM; echo up; while :; do sleep 0.05; done\n");
  Program job =
      Launch({"--deploy_mode=cluster", "--ps_program=" + Server()}, {worker, "--mode=sync"});
  ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
  job.Signal(SIGINT);
  ASSERT_TRUE(job.WaitForOutput("SIGINT: stopping the workers")) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
  Program slow = Launch({"--deploy_mode=single", "--stop_timeout=0.2"}, {worker});
  ASSERT_TRUE(slow.WaitForOutput("| up")) << slow.output();
  slow.Signal(SIGTERM);
  EXPECT_EQ(slow.Wait(), 143) << slow.output();
}

TEST_F(LaunchTest, CtrlCStopsServersThatAreStarting) {
  const std::string server = Script("ps", "echo slow; exec sleep 100\n");
  Program job =
      Launch({"--deploy_mode=cluster", "--ps_program=" + server}, {"/bin/true", "--mode=sync"});
  ASSERT_TRUE(WaitForProcesses(5)) << "launcher, process shims, server";
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
}

TEST_F(LaunchTest, ServerThatDoesNotExitIsTerminated) {
  const std::string server =
      Script("ps", std::string(kReadServerFlags) + kListen + "exec sleep 100\n");
  Program job = Launch({"--deploy_mode=cluster", "--server_grace=0.2", "--ps_program=" + server},
                       {"/bin/true", "--mode=sync"});
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("servers have not exited after their workers"), 1u) << job.output();
}

bool IsListening(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int result = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::close(fd);
  return result == 0;
}

TEST_F(LaunchTest, KilledLauncherLeavesNoProcessAndNoPort) {
  const std::string server = Script("ps", R"(exec python3 -c '
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print("millrace-ps: shard 0 of 1 listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
time.sleep(1000)
'
)");
  // A grandchild in another process group and session, and a parent that ignores signals.
  const std::string worker = Script("w",
                                    "trap '' INT TERM HUP\nsetsid sh -c 'sleep 1000 & wait' "
                                    "&\necho \"words: $*\"; echo up; sleep 1000\n");
  for (const int end : {SIGKILL, SIGINT}) {
    Program job = Launch({"--deploy_mode=cluster", "--stop_timeout=0.2", "--server_grace=0.2",
                          "--ps_program=" + server},
                         {worker, "--mode=sync"});
    ASSERT_TRUE(job.WaitForOutput("| up", 2)) << job.output();
    ASSERT_TRUE(WaitForProcesses(1 + 3 + 1 + 2 * 4))
        << "launcher, process shims, server, workers and their children";
    const std::string output = job.output();
    const size_t port_at = output.find("--ps_hosts=127.0.0.1:") + 21;
    const auto port = static_cast<uint16_t>(std::stoi(output.substr(port_at)));
    EXPECT_TRUE(IsListening(port));
    job.Signal(end);
    EXPECT_EQ(job.Wait(), 128 + end) << job.output();
    EXPECT_TRUE(WaitForProcesses(0));
    EXPECT_FALSE(IsListening(port));
  }
}

TEST_F(LaunchTest, GrandchildrenAreKilledWhenTheirProcessExits) {
  const std::string worker = Script("w",
                                    "setsid sh -c 'echo child; touch up; sleep 1000' &\n"
                                    "while [ ! -e up ]; do sleep 0.01; done\nexit 5\n");
  Program job = Launch({"--deploy_mode=single"}, {worker});
  EXPECT_EQ(job.Wait(), 5);
  EXPECT_EQ(job.Count("| child"), 1u) << job.output();
}

TEST_F(LaunchTest, ProcessIsKilledWithItsShim) {
  const std::string worker = Script("w", "echo parent $PPID; echo up; exec sleep 1000\n");
  Program job = Launch({"--deploy_mode=single"}, {worker});
  ASSERT_TRUE(job.WaitForOutput("| up")) << job.output();
  const std::string output = job.output();
  KillPid(output.substr(output.find("parent ") + 7));
  EXPECT_EQ(job.Wait(), 137) << job.output();
}

TEST_F(LaunchTest, NoLineIsLostAtExit) {
  const std::string worker =
      Script("w", "seq 1 30000; seq 1 30000 | sed s/^/e/ >&2; printf 'the last, without an end'\n");
  Program job = Launch({"--deploy_mode=single", "--log_dir=logs"}, {worker});
  EXPECT_EQ(job.Wait(), 0);
  EXPECT_EQ(job.Count("\nworker 0 | e"), 30000u);
  EXPECT_EQ(job.Count("\nworker 0 | "), 60001u);
  EXPECT_EQ(job.Count("worker 0 | the last, without an end\n"), 1u);
  const std::string log = test::ReadFile(folder_ / "logs/worker-0.log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 60001);
}

TEST_F(LaunchTest, ReaderThatExitsDoesNotEndTheJob) {
  const std::string worker = Script("w", "seq 1 100000; echo made > product\n");
  const std::string line = "cd " + folder_.path() + " && " + Launcher() +
                           " --deploy_mode=single --log_dir=logs -- " + worker;
  const ProgramRun head = RunShell("{ " + line + "; echo $? >status; } | head -n 1");
  EXPECT_EQ(test::ReadFile(folder_ / "status"), "0\n") << head.err;
  EXPECT_EQ(test::ReadFile(folder_ / "product"), "made\n");
  EXPECT_NE(head.err.find("standard output: cannot write: Broken pipe"), std::string::npos)
      << head.err;
  const std::string log = test::ReadFile(folder_ / "logs/worker-0.log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 100000);
  const ProgramRun closed = RunShell(line + " >&- 2>&-");
  EXPECT_EQ(closed.status, 0);
}

TEST_F(LaunchTest, ReaderThatStopsReadingDoesNotBlockCtrlC) {
  ASSERT_EQ(::mkfifo((folder_ / "log0").c_str(), 0600), 0);
  const int reader = ::open((folder_ / "log0").c_str(), O_RDONLY | O_NONBLOCK);
  Program job = Launch({"--deploy_mode=single"}, {Script("w", "touch up; exec yes\n")});
  ASSERT_TRUE(test::WaitUntil([&] { return fs::exists(folder_ / "up"); }));
  // The second signal kills all processes; the third one drops the pending output.
  EXPECT_TRUE(test::WaitUntil([&] {
    job.Signal(SIGINT);
    return job.HasExited();
  }));
  EXPECT_EQ(job.Wait(), 130);
  ::close(reader);
}

// A limit of the size of files, 4096 bytes, has the same effect as a full disk.
TEST_F(LaunchTest, FullDiskLosesOnlyLogLines) {
  const ProgramRun run =
      RunShell("cd " + folder_.path() + " && { trap '' XFSZ; ulimit -f 8; " + Launcher() +
               " --deploy_mode=single --log_dir=logs -- " + Script("w", "seq 1 5000\n") +
               " 2> messages && echo succeeded; } | cat > all");
  EXPECT_EQ(run.status, 0) << run.err;
  // In one stream a message may stand in the middle of a line.
  const std::string all = test::ReadFile(folder_ / "all") + test::ReadFile(folder_ / "messages");
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = 0; (at = all.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("worker 0 | "), 5000u);
  EXPECT_EQ(count("succeeded"), 1u);
  EXPECT_EQ(count("worker-0.log: cannot write: File too large"), 1u);
  EXPECT_EQ(count("the log of worker 0 is missing 19797 bytes"), 1u) << all.substr(0, 1000);
  EXPECT_EQ(fs::file_size(folder_ / "logs/worker-0.log"), 4096u);
}

TEST_F(LaunchTest, UsageErrorsAreReportedBeforeAnyProcessStarts) {
  const std::string worker = Script("w", "touch ran\n");
  test::WriteFile(folder_ / "plain", "text");
  const std::pair<std::string, std::string> cases[] = {
      {"", "no command"},
      {"--", "no command"},
      {worker, "come after --: millrace-launch -- " + worker},
      {"--num_ps 1 --num_workers=2 " + worker + " --mode=sync --train='data/t-*'",
       "unknown flag --mode; see millrace-launch --help; flags of the program to start come after "
       "--: millrace-launch --num_ps 1 --num_workers=2 -- " +
           worker + " --mode=sync '--train=data/t-*'"},
      {"--mode=sync --num_ps=1", "as in millrace-launch FLAGS -- millrace-lr FLAGS"},
      {"--mode=sync -- " + worker, "come after -- and its name"},
      {"--deploy_mode=cluster3 -- " + worker, "expected single, cluster or cluster2"},
      {"--deploy_mode=single --num_ps=1 -- " + worker, "expected one of them"},
      {"--num_workers=3 -- " + worker, "expected --num_ps of at least 1"},
      {"--num_ps=1 --num_workers=0 -- " + worker, "expected at least 1"},
      {"--deploy_mode=cluster -- " + worker + " --mode=single", "expected sync, async or ssp"},
      {"--deploy_mode=single -- " + worker + " --mode=sync", "needs servers"},
      {"--deploy_mode=cluster -- " + worker + " --ps_hosts=a:1", "millrace-launch adds it itself"},
      {"--deploy_mode=cluster --restart=1 -- " + worker, "--restart without --run_dir"},
      {"--deploy_mode=cluster --dashboard=80 -- " + worker, "expected --run_dir in the command"},
      {"--deploy_mode=cluster --dashboard=70000 -- " + worker, "expected a port, 1 to 65535"},
      {"--deploy_mode=cluster --ps_program=nope -- " + worker, "'nope': no program of this name"},
      {"--deploy_mode=single -- " + folder_ / "none", "none: cannot be executed: No such file"},
      {"--deploy_mode=single -- " + folder_ / "plain",
       "plain: cannot be executed: Permission denied"},
      {"--deploy_mode=single -- " + folder_.path(), "cannot be executed: Is a directory"},
      {"--num_ps=1 --start_timeout=0 -- " + worker, "--start_timeout: expected seconds"},
      {"--hosts=a,-oProxyCommand=x -- " + worker, "--hosts=a,-oProxyCommand=x: expected names"},
      {"--hosts=a --ssh=\"ssh 'x\" -- " + worker, "a quote is not closed"},
      {"--rendezvous=/tmp -- " + worker, "for ranks of mpirun or srun"},
      {"--deploy_mod=single -- " + worker, "did you mean --deploy_mode?"},
      {"--log_dir=/proc/logs -- " + worker, "/proc/logs: cannot create the folder"},
  };
  for (const auto& [line, message] : cases) {
    const ProgramRun run =
        RunShell("cd " + folder_.path() + "; unset OMPI_COMM_WORLD_RANK SLURM_PROCID; " +
                 Launcher() + " " + line);
    EXPECT_TRUE(run.status == 1 || run.status == 2) << line;
    EXPECT_NE(run.err.find(message), std::string::npos) << line << "\n" << run.err;
    EXPECT_EQ(run.out, "") << line;
  }
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(LaunchTest, HelpNamesEveryFlag) {
  const ProgramRun run = RunProgram("millrace-launch", "--help");
  EXPECT_EQ(run.status, 0);
  for (const std::string flag :
       {"--deploy_mode", "--hosts", "--rendezvous", "--restart", "--log_dir"})
    EXPECT_NE(run.out.find(flag), std::string::npos) << flag;
  EXPECT_NE(run.out.find("usage: millrace-launch [flags] -- COMMAND..."), std::string::npos)
      << run.out;
}

}  // namespace
}  // namespace millrace::launch
