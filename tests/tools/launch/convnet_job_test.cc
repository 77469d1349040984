// SPDX-License-Identifier: Apache-2.0
// Jobs that train a net with servers and lose processes.

#include "tests/support/fault_fixture.h"

namespace millrace::launch {
namespace {

using test::FaultTest;
using test::Program;

class ConvnetJobTest : public FaultTest {
 protected:
  ConvnetJobTest() : FaultTest("--checkpoint_every=1500") {}

  using FaultTest::Command;
  std::vector<std::string> Command(const std::string& mode, const std::string& run,
                                   const std::string& more) const override {
    return {"millrace-convnet",
            "--mode=" + mode,
            "--net=lenet",
            "--data=synthetic",
            "--epochs=5",
            "--synthetic_images=3000",
            "--batch_size=8",
            "--threads=1",
            "--eval_every=1000",
            "--run_dir=" + folder_ / run,
            more};
  }
};

TEST_F(ConvnetJobTest, SyncJobThatLosesAProcessEndsWithTheSameModelBitForBit) {
  ExpectSameModelAfterKill({"worker 2", "ps 0", "worker 0"});
}

TEST_F(ConvnetJobTest, InterruptedJobIsResumedToTheSameModel) { ExpectSameModelAfterInterrupt(); }

TEST_F(ConvnetJobTest, InterruptedJobWithAStoppedWorkerIsResumedToTheSameModel) {
  ExpectSameModelAfterInterruptWithStoppedWorker();
}

TEST_F(ConvnetJobTest, AsyncJobRestartsAWorkerAndResumesAfterAServerLoss) {
  Program job = Launch(flags_, Command("async", "run"));
  ASSERT_TRUE(WaitForEvaluations(job, "run")) << job.output();
  Kill(job, "worker 1");
  ASSERT_TRUE(job.WaitForOutput(") was killed by SIGKILL: ")) << job.output();
  Kill(job, "ps 1");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count(") was killed by SIGKILL: "), 2u) << job.output();
  EXPECT_GT(Model("run").size(), 200000u);
}

}  // namespace
}  // namespace millrace::launch
