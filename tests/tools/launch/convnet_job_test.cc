// Jobs that train a net on servers, and lose processes on the way.

#include "tests/support/disturbed_jobs.h"

namespace millrace::tools {
namespace {

class ConvnetJobTest : public DisturbedJobTest {
 protected:
  ConvnetJobTest() : DisturbedJobTest("--checkpoint_every=1500") {}

  using DisturbedJobTest::Command;
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

TEST_F(ConvnetJobTest, SyncJobThatLostAProcessEndsWithTheSameModelBitForBit) {
  ExpectSameModelWithout({"worker 2", "ps 0", "worker 0"});
}

TEST_F(ConvnetJobTest, InterruptedJobIsResumedToTheSameModel) {
  ExpectSameModelAfterInterruption();
}

TEST_F(ConvnetJobTest, InterruptedJobWithAWorkerThatStandsStillKeepsWhatItLearnt) {
  ExpectSameModelAfterStandstill();
}

TEST_F(ConvnetJobTest, AsyncJobTakesALostWorkerBackAndGoesOnFromItsCheckpoint) {
  Launched job = Launch(flags_, Command("async", "run"));
  ASSERT_TRUE(IsUnderWay(job, "run")) << job.output();
  Kill(job, "worker 1");
  ASSERT_TRUE(job.Says(") was killed by SIGKILL: ")) << job.output();
  Kill(job, "ps 1");
  EXPECT_EQ(job.Wait(), 0) << job.output();
  EXPECT_EQ(job.Count(") was killed by SIGKILL: "), 2u) << job.output();
  EXPECT_GT(Model("run").size(), 200000u);
}

}  // namespace
}  // namespace millrace::tools
