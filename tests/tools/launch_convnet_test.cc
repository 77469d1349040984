// Jobs that train a net on servers, and lose processes on the way.

#include "tests/tools/launch_jobs.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

class ConvnetJobTest : public LaunchTest {
 protected:
  std::vector<std::string> Command(const std::string& mode, const std::string& run,
                                   const std::string& more = "--checkpoint_every=1500") const {
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

  std::string Undisturbed() {
    Launched job = Launch(flags_, Command("sync", "undisturbed"));
    EXPECT_EQ(job.Wait(), 0) << job.output();
    const std::string model = Model("undisturbed");
    EXPECT_GT(model.size(), 200000u);
    return model;
  }

  const std::vector<std::string> flags_ = {"--num_ps=2", "--num_workers=3", "--restart=2"};
};

TEST_F(ConvnetJobTest, SyncJobThatLostAProcessEndsWithTheSameModelBitForBit) {
  const std::string expected = Undisturbed();
  for (const std::string victim : {"worker 2", "ps 0", "worker 0"}) {
    SCOPED_TRACE(victim);
    const std::string run = "without-" + victim;
    Launched job = Launch(flags_, Command("sync", run));
    ASSERT_TRUE(IsUnderWay(job, run)) << job.output();
    Kill(job, victim);
    EXPECT_EQ(job.Wait(), 0) << job.output();
    EXPECT_EQ(job.Count(") was killed by SIGKILL: "), 1u) << job.output();
    EXPECT_TRUE(Model(run) == expected) << job.output();
  }
}

TEST_F(ConvnetJobTest, InterruptedJobIsResumedToTheSameModel) {
  const std::string expected = Undisturbed();
  Launched job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
  ASSERT_TRUE(IsUnderWay(job, "run")) << job.output();
  job.Signal(SIGINT);
  EXPECT_EQ(job.Wait(), 130) << job.output();
  EXPECT_FALSE(fs::exists(folder_ / "run/model/model.bin")) << "it should not have ended yet";
  Launched rest = Launch(flags_, Command("sync", "run", "--resume"));
  EXPECT_EQ(rest.Wait(), 0) << rest.output();
  EXPECT_GE(rest.Count("resumed   from the checkpoint of step "), 1u) << rest.output();
  EXPECT_TRUE(Model("run") == expected) << rest.output();
}

TEST_F(ConvnetJobTest, InterruptedJobWithAWorkerThatStandsStillKeepsWhatItLearnt) {
  const std::string expected = Undisturbed();
  Launched job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
  ASSERT_TRUE(IsUnderWay(job, "run")) << job.output();
  Kill(job, "worker 2", SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others come to their barrier
  job.Signal(SIGINT);
  EXPECT_TRUE(IsSaved(job, "run")) << job.output();
  Kill(job, "worker 2", SIGCONT);
  EXPECT_NE(job.Wait(), 0) << job.output();
  Launched rest = Launch(flags_, Command("sync", "run", "--resume"));
  EXPECT_EQ(rest.Wait(), 0) << rest.output();
  EXPECT_TRUE(Model("run") == expected) << rest.output();
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
