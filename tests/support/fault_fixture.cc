// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_fixture.h"

#include <chrono>
#include <filesystem>
#include <thread>

namespace millrace::test {

std::string FaultTest::FaultlessModel() {
  Program job = Launch(flags_, Command("sync", "faultless"));
  EXPECT_EQ(job.Wait(), 0) << job.output();
  const std::string model = Model("faultless");
  EXPECT_GT(model.size(), 100000u);
  return model;
}

void FaultTest::ExpectSameModelAfterKill(const std::vector<std::string>& victims) {
  const std::string expected = FaultlessModel();
  for (const std::string& victim : victims) {
    SCOPED_TRACE(victim);
    const std::string run = "without-" + victim;
    Program job = Launch(flags_, Command("sync", run));
    ASSERT_TRUE(WaitForEvaluations(job, run)) << job.output();
    Kill(job, victim);
    EXPECT_EQ(job.Wait(), 0) << job.output();
    EXPECT_EQ(job.Count(") was killed by SIGKILL: "), 1u) << job.output();
    EXPECT_TRUE(Model(run) == expected) << job.output();
  }
}

void FaultTest::ExpectSameModelAfterInterrupt() {
  const std::string expected = FaultlessModel();
  Program job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
  ASSERT_TRUE(WaitForEvaluations(job, "run")) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
  EXPECT_EQ(Model("run"), "") << "the run should not be finished";
  Program rest = Launch(flags_, Command("sync", "run", "--resume"));
  EXPECT_EQ(rest.Wait(), 0) << rest.output();
  EXPECT_GE(rest.Count("resumed   from the checkpoint of step "), 1u) << rest.output();
  EXPECT_TRUE(Model("run") == expected) << rest.output();
}

// Waits until both shards have a checkpoint, or until the chief reports that none can be written
// because the stopped worker has reached only one of the shards.
bool FaultTest::WaitForCheckpoint(const Program& job, const std::string& run) const {
  const auto is_saved = [&](const char* shard) {
    const std::string folder = folder_ / (run + "/checkpoints/" + shard);
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
      if (file.path().extension() != ".tmp") return true;
    }
    return false;
  };
  return WaitUntil([&] {
    return (is_saved("shard-0") && is_saved("shard-1")) ||
           job.Count("no checkpoint was written") > 0;
  });
}

void FaultTest::ExpectSameModelAfterInterruptWithStoppedWorker() {
  const std::string expected = FaultlessModel();
  Program job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
  ASSERT_TRUE(WaitForEvaluations(job, "run")) << job.output();
  Kill(job, "worker 2", SIGSTOP);
  // The other workers reach their barrier, which nothing reports.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job.Signal(SIGINT);
  EXPECT_TRUE(WaitForCheckpoint(job, "run")) << job.output();
  Kill(job, "worker 2", SIGCONT);
  EXPECT_NE(job.Wait(), 0) << job.output();
  Program rest = Launch(flags_, Command("sync", "run", "--resume"));
  EXPECT_EQ(rest.Wait(), 0) << rest.output();
  EXPECT_TRUE(Model("run") == expected) << rest.output();
}

}  // namespace millrace::test
