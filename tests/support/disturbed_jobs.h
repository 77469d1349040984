// Training jobs that lose processes or are interrupted, whatever it is that they train.
#pragma once

#include <string>
#include <vector>

#include "tests/support/launch_jobs.h"

namespace millrace::tools {

class DisturbedJobTest : public LaunchTest {
 protected:
  // The program and its flags, with `more` behind them.
  virtual std::vector<std::string> Command(const std::string& mode, const std::string& run,
                                           const std::string& more) const = 0;
  // Of a run in which checkpoints are written several times.
  std::vector<std::string> Command(const std::string& mode, const std::string& run) const {
    return Command(mode, run, checkpoints_);
  }

  // What a sync job of two servers and three workers comes to when nobody disturbs it.
  std::string Undisturbed() {
    Launched job = Launch(flags_, Command("sync", "undisturbed"));
    EXPECT_EQ(job.Wait(), 0) << job.output();
    const std::string model = Model("undisturbed");
    EXPECT_GT(model.size(), 100000u);
    return model;
  }

  void ExpectSameModelWithout(const std::vector<std::string>& victims) {
    const std::string expected = Undisturbed();
    for (const std::string& victim : victims) {
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

  void ExpectSameModelAfterInterruption() {
    const std::string expected = Undisturbed();
    Launched job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
    ASSERT_TRUE(IsUnderWay(job, "run")) << job.output();
    job.Signal(SIGINT);
    EXPECT_EQ(job.Wait(), 130) << job.output();
    EXPECT_EQ(Model("run"), "") << "it should not have ended yet";
    Launched rest = Launch(flags_, Command("sync", "run", "--resume"));
    EXPECT_EQ(rest.Wait(), 0) << rest.output();
    EXPECT_GE(rest.Count("resumed   from the checkpoint of step "), 1u) << rest.output();
    EXPECT_TRUE(Model("run") == expected) << rest.output();
  }

  // Waits until both shards have a checkpoint, or the chief says that it cannot be: the worker that
  // stands still was heard by one of them only.
  bool IsSaved(const Launched& job, const std::string& run) const {
    const auto is_saved = [&](const char* shard) {
      const std::string folder = folder_ / (run + "/checkpoints/" + shard);
      std::error_code error;
      for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
        if (file.path().extension() != ".tmp") return true;
      }
      return false;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!(is_saved("shard-0") && is_saved("shard-1"))) {
      if (job.Count("no checkpoint was written") > 0) return true;
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  // Of one that is interrupted while a worker stands still.
  void ExpectSameModelAfterStandstill() {
    const std::string expected = Undisturbed();
    Launched job = Launch(flags_, Command("sync", "run", "--checkpoint_every=0"));
    ASSERT_TRUE(IsUnderWay(job, "run")) << job.output();
    Kill(job, "worker 2", SIGSTOP);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(300));  // the others come to their barrier
    job.Signal(SIGINT);
    EXPECT_TRUE(IsSaved(job, "run")) << job.output();
    Kill(job, "worker 2", SIGCONT);
    EXPECT_NE(job.Wait(), 0) << job.output();
    Launched rest = Launch(flags_, Command("sync", "run", "--resume"));
    EXPECT_EQ(rest.Wait(), 0) << rest.output();
    EXPECT_TRUE(Model("run") == expected) << rest.output();
  }

  explicit DisturbedJobTest(const std::string& checkpoints) : checkpoints_(checkpoints) {}

  const std::vector<std::string> flags_ = {"--num_ps=2", "--num_workers=3", "--restart=2"};

 private:
  const std::string checkpoints_;
};

}  // namespace millrace::tools
