// SPDX-License-Identifier: Apache-2.0
// Whole training jobs of the real programs, with every kind of fault that a job should survive.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <utility>

#include "tests/support/fault_fixture.h"
#include "tests/support/program.h"

namespace millrace::launch {
namespace {

using test::FaultTest;
using test::Program;
using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

using std::chrono::steady_clock;

class TrainingTest : public FaultTest {
 protected:
  TrainingTest() : FaultTest("--checkpoint_every=60000") {}

  static void SetUpTestSuite() {
    data_ = std::make_unique<test::TemporaryFolder>();
    const ProgramRun made =
        RunProgram("millrace-records",
                   "synth --rows=120000 --test_rows=2000 --num_features=100000 --shards=4 --out=" +
                       data_->path());
    ASSERT_EQ(made.status, 0) << made.err;
  }
  static void TearDownTestSuite() { data_.reset(); }

  using FaultTest::Command;
  std::vector<std::string> Command(const std::string& mode, const std::string& run,
                                   const std::string& more) const override {
    return {"millrace-lr",
            "--mode=" + mode,
            "--train=" + *data_ / "train-*",
            "--test=" + *data_ / "test-*",
            "--num_features=100000",
            "--epochs=6",
            "--eval_every=60000",
            "--run_dir=" + folder_ / run,
            more};
  }

  double LastLogloss(const std::string& run) const {
    const std::string rows = test::ReadFile(folder_ / (run + "/metrics.jsonl"));
    const size_t at = rows.rfind("\"logloss\":");
    EXPECT_NE(at, std::string::npos) << rows;
    return std::atof(rows.c_str() + at + 10);
  }

  static std::unique_ptr<test::TemporaryFolder> data_;
};
std::unique_ptr<test::TemporaryFolder> TrainingTest::data_;

TEST_F(TrainingTest, SyncJobThatLosesAProcessEndsWithTheSameModelBitForBit) {
  ExpectSameModelAfterKill({"worker 1", "ps 1", "worker 0"});
}

// Worker 0 holds the step while it evaluates and saves: the best model is exact.
TEST_F(TrainingTest, SyncJobKeepsTheBestModelThroughAKill) {
  const std::string best = "--save_best=logloss";
  std::vector<std::string> command = Command("sync", "whole");
  command.push_back(best);
  Program whole = Launch(flags_, command);
  ASSERT_EQ(whole.Wait(), 0) << whole.output();
  const std::string json = test::ReadFile(folder_ / "whole/run.json");
  const size_t at = json.find("\"best\":{\"metric\":\"logloss\",\"step\":");
  ASSERT_NE(at, std::string::npos) << json;
  const uint64_t step = std::stoull(json.substr(json.find("\"step\":", at) + 7));

  // The job that ends at that step has the best model as its last one.
  command = Command("sync", "until");
  command.push_back("--max_examples=" + std::to_string(300 * step));
  Program until = Launch(flags_, command);
  ASSERT_EQ(until.Wait(), 0) << until.output();
  const std::string expected = test::ReadFile(folder_ / "whole/model/best.bin");
  EXPECT_TRUE(Model("until") == expected);

  command = Command("sync", "killed");
  command.push_back(best);
  Program killed = Launch(flags_, command);
  ASSERT_TRUE(WaitForEvaluations(killed, "killed")) << killed.output();
  Kill(killed, "ps 1");
  EXPECT_EQ(killed.Wait(), 0) << killed.output();
  EXPECT_TRUE(test::ReadFile(folder_ / "killed/model/best.bin") == expected);
}

// The examples of a worker are its own, and its rate does not count those before a resume.
TEST_F(TrainingTest, AsyncWorkersPrintTheirOwnExamples) {
  Program job = Launch({"--num_ps=1", "--num_workers=2"}, Command("async", "run"));
  ASSERT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("worker 0 | trained   720,000 examples"), 1u) << job.output();
  EXPECT_EQ(job.Count("worker 1 | trained   360,000 examples of its own part"), 1u) << job.output();
}

TEST_F(TrainingTest, OneRestartIsEnoughForProcessesKilledTogether) {
  const std::string expected = FaultlessModel();
  const std::vector<std::string> once = {"--num_ps=2", "--num_workers=3", "--restart=1"};
  Program job = Launch(once, Command("sync", "run"));
  ASSERT_TRUE(WaitForEvaluations(job, "run")) << job.output();
  for (const char* victim : {"worker 1", "worker 0", "worker 2"}) Kill(job, victim);
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count("(restart 1 of 1)"), 1u) << job.output();
  EXPECT_TRUE(Model("run") == expected) << job.output();
}

// Sends random bytes, huge sizes, wrong proofs and half-open connections to both servers while the
// job runs.
TEST_F(TrainingTest, AttackedJobEndsWithTheSameModel) {
  const std::string expected = FaultlessModel();
  Program job = Launch(flags_, Command("sync", "attacked"));
  ASSERT_TRUE(WaitForEvaluations(job, "attacked")) << job.output();
  const std::string output = job.output();
  std::string attacks;
  for (const char* shard : {"shard 0 of 2", "shard 1 of 2"}) {
    const size_t at = output.find(shard);
    ASSERT_NE(at, std::string::npos) << output;
    const size_t colon = output.find(':', output.find("listening on ", at));
    const std::string port = output.substr(colon + 1, output.find('\n', colon) - colon - 1);
    attacks += (attacks.empty() ? "python3 -B " : " & first=$!; python3 -B ") +
               std::string(MILLRACE_SOURCE_DIR "/tests/tools/launch/attack.py ") + port + " 1";
  }
  EXPECT_EQ(RunShell(attacks + " && wait $first").status, 0);
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_TRUE(Model("attacked") == expected);
}

// Columns in different units and with means far from 0, as in a table that nobody prepared. All
// workers choose the same rate, and servers scale as one process does.
TEST_F(TrainingTest, UnscaledNumbersTrainOnServersAsInOneProcess) {
  std::string text;
  uint32_t state = 1;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / (1 << 24) - 0.5;
  };
  for (int r = 0; r < 6000; ++r) {
    const double a = next(), b = next(), c = next();
    text += std::to_string(4 * a - 3 * b + 2 * c + next() > 0 ? 1 : 0) +
            " 1:" + std::to_string(2000 + 10 * a) + " 2:" + std::to_string(1e-3 * b) +
            " 3:" + std::to_string(1e6 * c) + "\n";
  }
  test::WriteFile(folder_ / "rows.libsvm", text);
  const auto command = [&](const std::string& run) -> std::vector<std::string> {
    return {"millrace-lr", "--train=" + folder_ / "rows.libsvm",
            "--test=" + folder_ / "rows.libsvm", "--run_dir=" + folder_ / run};
  };
  std::string words;
  for (const std::string& word : command("one")) words += word == "millrace-lr" ? "" : word + " ";
  const ProgramRun one = RunProgram("millrace-lr", words);
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("(3 centered features)"), std::string::npos) << one.out;
  EXPECT_LT(LastLogloss("one"), 0.35);
  const auto job = [&](const char* servers, const char* workers, const std::string& run) {
    std::vector<std::string> words_of_job = command(run);
    words_of_job.push_back("--mode=sync");
    Program program = Launch({servers, workers}, words_of_job);
    EXPECT_EQ(program.Wait(), 0) << program.output();
  };
  job("--num_ps=1", "--num_workers=1", "job");
  EXPECT_NEAR(LastLogloss("job"), LastLogloss("one"), 1e-4);
  job("--num_ps=2", "--num_workers=2", "two");
  job("--num_ps=2", "--num_workers=2", "again");
  EXPECT_LT(LastLogloss("two"), 0.4);
  EXPECT_TRUE(Model("two") == Model("again"));
}

// A failure that a restart repeats is not retried, however many restarts are left.
TEST_F(TrainingTest, CorruptDataUsesUpOneRestart) {
  const std::string file = folder_ / "corrupt.tfrecord";
  std::string bytes = test::ReadFile(*data_ / "train-00001-of-00004.tfrecord");
  bytes[bytes.size() / 2] ^= 1;
  test::WriteFile(file, bytes);
  for (const char* mode : {"sync", "async"}) {
    SCOPED_TRACE(mode);
    Program job = Launch({"--num_ps=1", "--num_workers=2", "--restart=5"},
                         {"millrace-lr", std::string("--mode=") + mode,
                          "--train=" + *data_ / "train-00000-*" + "," + file,
                          "--num_features=100000", "--run_dir=" + folder_ / mode});
    EXPECT_EQ(job.Wait(), 1) << job.output();
    EXPECT_EQ(job.Count("(restart 1 of 5)"), 1u) << job.output();
    EXPECT_EQ(job.Count("(restart 2 of 5)"), 0u) << job.output();
    EXPECT_GE(job.Count("CRC"), 2u) << job.output();
  }
}

TEST_F(TrainingTest, InterruptedJobIsResumedToTheSameModel) { ExpectSameModelAfterInterrupt(); }

TEST_F(TrainingTest, InterruptedJobWithAStoppedWorkerIsResumedToTheSameModel) {
  ExpectSameModelAfterInterruptWithStoppedWorker();
}

// SIGTERM to one process has the same effect as SIGKILL.
TEST_F(TrainingTest, TerminatedWorkerIsRestarted) {
  const std::string expected = FaultlessModel();
  Program job = Launch(flags_, Command("sync", "run"));
  ASSERT_TRUE(WaitForEvaluations(job, "run")) << job.output();
  Kill(job, "worker 2", SIGSTOP);  // so that the job cannot finish before the restart
  Kill(job, "worker 1", SIGTERM);
  EXPECT_TRUE(job.WaitForOutput("restarting it to rejoin")) << job.output();
  Kill(job, "worker 2", SIGCONT);
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_TRUE(Model("run") == expected) << job.output();
}

TEST_F(TrainingTest, WorkersMayHaveNoData) {
  test::WriteFile(folder_ / "empty", "");
  for (const std::string mode : {"sync", "async"}) {
    std::vector<std::string> command = Command(mode, mode);
    command[2] = "--train=" + *data_ / "train-00000-of-00004.tfrecord" + "," + folder_ / "empty";
    Program job = Launch({"--num_ps=1", "--num_workers=2"}, command);
    EXPECT_EQ(job.Wait(), 0) << job.output();
    EXPECT_EQ(job.Count("worker 0 | trained   180,000 examples"), 1u) << job.output();
  }
}

TEST_F(TrainingTest, ChiefWithoutDataStillEvaluatesAndSaves) {
  test::WriteFile(folder_ / "empty", "");
  std::string model;
  for (const std::string run : {"run", "again"}) {
    std::vector<std::string> command = Command("sync", run);
    command[2] = "--train=" + folder_ / "empty" + "," + *data_ / "train-00000-of-00004.tfrecord";
    command.push_back("--batch_size=100");
    Program job = Launch({"--num_ps=2", "--num_workers=2", "--restart=1"}, command);
    ASSERT_TRUE(WaitForEvaluations(job, run)) << job.output();
    if (run == "again") Kill(job, "ps 1");
    EXPECT_EQ(job.Wait(), 0) << job.output();
    EXPECT_EQ(Evaluations(run), 3);
    for (const char* shard : {"shard-0", "shard-1"}) {
      EXPECT_TRUE(std::filesystem::exists(
          folder_ / (run + "/checkpoints/" + shard + "/checkpoint-000000001800")));
    }
    if (model.empty()) model = Model(run);
    EXPECT_TRUE(Model(run) == model) << job.output();
  }
}

TEST_F(TrainingTest, ZstdOnTheWireLosesNothingAndBf16Little) {
  const std::string expected = FaultlessModel();
  const double logloss = LastLogloss("faultless");
  Program zstd = Launch(flags_, Command("sync", "zstd", "--wire_zstd"));
  EXPECT_EQ(zstd.Wait(), 0) << zstd.output();
  EXPECT_TRUE(Model("zstd") == expected);
  Program bf16 = Launch(flags_, Command("sync", "bf16", "--wire_bf16"));
  EXPECT_EQ(bf16.Wait(), 0) << bf16.output();
  EXPECT_FALSE(Model("bf16") == expected);
  EXPECT_NEAR(LastLogloss("bf16"), logloss, 0.002 * logloss);
}

TEST_F(TrainingTest, BackupWorkersContinueWhileOneIsStopped) {
  Program job =
      Launch({"--deploy_mode=cluster2"}, Command("sync", "backup", "--replicas_to_aggregate=2"));
  ASSERT_TRUE(WaitForEvaluations(job, "backup")) << job.output();
  Kill(job, "worker 2", SIGSTOP);
  EXPECT_TRUE(WaitForEvaluations(job, "backup", Evaluations("backup") + 2)) << job.output();
  Kill(job, "worker 2", SIGCONT);
  EXPECT_EQ(job.Wait(), 0) << job.output();
}

TEST_F(TrainingTest, SyncJobWithoutRestartsEndsSoon) {
  for (const std::string victim : {"worker 2", "ps 0", "worker 0"}) {
    SCOPED_TRACE(victim);
    Program job = Launch({"--num_ps=2", "--num_workers=3"}, Command("sync", victim));
    ASSERT_TRUE(WaitForEvaluations(job, victim)) << job.output();
    const auto begin = steady_clock::now();
    Kill(job, victim);
    EXPECT_EQ(job.Wait(), 137) << job.output();
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_EQ(job.Count("millrace-launch: " + victim + " (pid "), 1u) << job.output();
  }
}

TEST_F(TrainingTest, AsyncJobFinishesWithoutAWorker) {
  for (const std::string mode : {"async", "ssp"}) {
    SCOPED_TRACE(mode);
    Program job = Launch({"--deploy_mode=cluster2"}, Command(mode, mode));
    ASSERT_TRUE(WaitForEvaluations(job, mode)) << job.output();
    Kill(job, "worker 1");
    EXPECT_EQ(job.Wait(), 137) << job.output();
    EXPECT_EQ(job.Count("was killed by SIGKILL: the other processes continue without it"), 1u)
        << job.output();
    EXPECT_EQ(job.Count("warning   lost 1 of 3 workers: worker 1;"), 1u) << job.output();
    EXPECT_EQ(job.Count(" s, without 1 of 3 workers"), 1u) << job.output();
    EXPECT_GT(Model(mode).size(), 100000u) << job.output();
  }
}

TEST_F(TrainingTest, RanksOfMpirunTrainTheSameModel) {
  if (RunShell("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
  const std::string expected = FaultlessModel();
  std::vector<std::string> words = {"/usr/bin/env",
                                    "mpirun",
                                    "--allow-run-as-root",
                                    "--oversubscribe",
                                    "-n",
                                    "5",
                                    Launcher(),
                                    "--num_ps=2",
                                    "--rendezvous=" + folder_ / "meet",
                                    "--"};
  for (const std::string& word : Command("sync", "mpi")) words.push_back(word);
  Program job(words, folder_.path(), folder_ / "log");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_TRUE(Model("mpi") == expected) << job.output();
}

// One server and one worker that are started by hand, so that a suspended server outlives its job.
class SuspendedServerTest : public TrainingTest {
 protected:
  Program StartServer(const std::string& name) const {
    return Program({test::ProgramPath("millrace-ps"), "--num_workers=1", "--rejoin_seconds=0.2",
                    "--run_dir=" + folder_ / "run"},
                   folder_.path(), folder_ / name);
  }

  Program StartWorker(Program& server, const std::string& name, bool resume) const {
    EXPECT_TRUE(server.WaitForOutput("listening on ")) << server.output();
    const std::string line = server.output();
    const size_t at = line.find("127.0.0.1:");
    std::vector<std::string> words = Command("sync", "run", "--checkpoint_every=20000");
    words[0] = test::ProgramPath(words[0]);
    if (resume) words.push_back("--resume");
    words.push_back("--job_name=worker");
    words.push_back("--worker_hosts=localhost");
    words.push_back("--ps_hosts=" + line.substr(at, line.find('\n', at) - at));
    return Program(words, folder_.path(), folder_ / name);
  }

  // The files of the server's checkpoints, without temporary ones.
  std::map<std::string, std::string> Checkpoints() const {
    std::map<std::string, std::string> files;
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(shard_, error)) {
      const std::string name = file.path().filename().string();
      if (name.find(".tmp-") == name.npos) files[name] = test::ReadFile(file.path().string());
    }
    return files;
  }

  static std::string Newest(const std::map<std::string, std::string>& files) {
    std::string newest;
    for (const auto& [name, bytes] : files) {
      if (name.starts_with("checkpoint-")) newest = name;
    }
    return newest;
  }

  bool IsSaving() const {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(shard_, error)) {
      const std::string name = file.path().filename().string();
      if (name.starts_with("checkpoint-") && name.find(".tmp-") != name.npos) return true;
    }
    return false;
  }

  // Held for the end of a save. No other process can change the folder then.
  bool IsLocked() const {
    const int fd = ::open(shard_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    ::close(fd);
    return locked;
  }

  // All of its threads.
  static bool IsStopped(const Program& program) {
    const std::string tasks = "/proc/" + std::to_string(program.pid()) + "/task";
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
      const std::string stat = test::ReadFile((task.path() / "stat").string());
      if (!stat.empty() && stat.find(") T ") == stat.npos) return false;
    }
    return true;
  }

  // Suspends the server while it writes a checkpoint, after it has completed another one. Polls
  // without a pause, because that takes some milliseconds only.
  bool SuspendWhileItSaves(Program& server) const {
    const auto deadline = steady_clock::now() + std::chrono::minutes(1);
    while (steady_clock::now() < deadline && !server.HasExited()) {
      if (!IsSaving() || Newest(Checkpoints()).empty()) continue;
      server.Signal(SIGSTOP);
      if (!test::WaitUntil([&] { return IsStopped(server); })) return false;
      if (IsSaving() && !IsLocked()) return true;
      server.Signal(SIGCONT);  // too late: it waits for the next checkpoint
    }
    return false;
  }

  const std::string shard_ = folder_ / "run/checkpoints/shard-0";
};

TEST_F(SuspendedServerTest, ChangesNothingWhenItWakesUpAfterItsJobWasResumed) {
  Program whole = Launch({"--num_ps=1", "--num_workers=1"}, Command("sync", "faultless"));
  ASSERT_EQ(whole.Wait(), 0) << whole.output();

  Program suspended = StartServer("first-server");
  {
    Program worker = StartWorker(suspended, "first-worker", /*resume=*/false);
    ASSERT_TRUE(SuspendWhileItSaves(suspended)) << worker.output();
  }  // is killed
  const std::map<std::string, std::string> first = Checkpoints();
  ASSERT_GE(first.size(), 2u) << "a manifest and a checkpoint";

  Program server = StartServer("second-server");
  Program worker = StartWorker(server, "second-worker", /*resume=*/true);
  ASSERT_TRUE(test::WaitUntil([&] { return Newest(Checkpoints()) > Newest(first); }))
      << worker.output();
  worker.Signal(SIGSTOP);
  std::map<std::string, std::string> before;
  ASSERT_TRUE(test::WaitUntil([&] {  // the server ends what the worker has asked for
    const auto last = std::exchange(before, Checkpoints());
    return last == before && !IsSaving() && !IsLocked();
  }));

  suspended.Signal(SIGCONT);
  EXPECT_EQ(suspended.Wait(), 1) << suspended.output();
  EXPECT_GE(suspended.Count("did not come back within 0.2 s"), 1u) << suspended.output();
  EXPECT_TRUE(Checkpoints() == before);
  EXPECT_FALSE(IsSaving()) << "it left a temporary file";

  worker.Signal(SIGCONT);
  EXPECT_EQ(worker.Wait(), 0) << worker.output();
  EXPECT_EQ(server.Wait(), 0) << server.output();
  EXPECT_TRUE(Model("run") == Model("faultless")) << worker.output();
}

}  // namespace
}  // namespace millrace::launch
