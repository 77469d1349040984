// SPDX-License-Identifier: Apache-2.0
// Jobs on slow disks and corrupting links, with members that break the protocol, and with servers
// that wake up after their job was resumed elsewhere. Each value of --gtest_random_seed gives other
// seeds.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/sim_job.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using millrace::test::MemoryFolder;

constexpr uint64_t kSeeds = 50;

uint64_t FirstSeed() { return kSeeds * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }

constexpr SimFaults kBadNetworkAndDisk = {
    .lose_request = 0.02, .lose_reply = 0.02, .corrupt = 0.02, .repeat = 0.1, .slow_disk = 0.5};

Job FaultyJob(uint64_t seed, const MemoryFolder& folder) {
  return {.seed = seed,
          .shards = 1 + seed % 3,
          .workers = 1 + seed % 4,
          .faults = kBadNetworkAndDisk,
          .crash = seed % 2 ? 0.03 : 0,
          .checkpoint = 0.3,
          .checkpoints = folder.path(),
          .misbehave = 0.1,
          .factors = seed % 4 == 3 ? 4u : 0};
}

TEST(FaultSimulation, SyncStaysTheSame) {
  uint64_t corrupted = 0;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const MemoryFolder folder;
    const Job job = FaultyJob(seed, folder);
    SimCluster cluster(job.seed, job.shards, job.workers, job.faults, job.checkpoints);
    cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
    EXPECT_TRUE(SameBits(WeightsOf(cluster, job), Serial(job)));
    if (testing::Test::HasFailure()) return;
    corrupted += cluster.corrupted();
  }
  EXPECT_GT(corrupted, 5 * kSeeds);
}

TEST(FaultSimulation, AsyncAppliesEveryPushOnce) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const MemoryFolder folder;
    Job job = FaultyJob(seed, folder);
    job.mode = seed % 2 ? Mode::kAsync : Mode::kSsp;
    job.ones = true;
    EXPECT_EQ(RunJob(job), ExpectedCounts(job));
    if (testing::Test::HasFailure()) return;
  }
}

// A worker that is lost or finishes completes steps of the others; none of them while a checkpoint
// is written (SimShard checks that).
TEST(FaultSimulation, BackupWorkersMakeNoStepWhileACheckpointIsWritten) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const MemoryFolder folder;
    Job job = FaultyJob(seed, folder);
    job.shards = 1;
    job.workers = 3 + seed % 2;
    job.replicas = 2;
    job.ones = true;
    job.crash = 0.1;
    SimCluster cluster(job.seed, job.shards, job.workers, job.faults, job.checkpoints);
    cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
    uint64_t pushes = 0, dropped = 0;
    for (size_t w = 0; w < job.workers; ++w) {
      pushes += cluster.shard(0).worker(w).pushes;
      dropped += cluster.shard(0).worker(w).dropped;
    }
    EXPECT_EQ(pushes + dropped, job.workers * kSteps);
    EXPECT_EQ(cluster.shard(0).progress().examples, pushes);
    if (testing::Test::HasFailure()) return;
  }
}

// The first job, whose servers are suspended from some step on, and the job that resumes it.
struct ResumedJob {
  explicit ResumedJob(uint64_t seed)
      : job(FaultyJob(seed, folder)),
        first(seed, job.shards, job.workers, job.faults, job.checkpoints),
        second(seed + 1000000, job.shards, job.workers, job.faults, job.checkpoints) {
    job.crash = job.misbehave = 0;
    job.checkpoint = 0.5;
    job.stop_at = 12 + seed % 10;
    first.Run([&](size_t worker) {
      Status status;
      EXPECT_FALSE(Live(job, first, worker, false, status)) << status.message();
    });
    first.while_saving = [] {};
    job.resume = true;
    job.stop_at = ~uint64_t{0};
  }

  void RunSecond() {
    second.Run([&](size_t worker) { LiveOn(job, second, worker); });
  }

  MemoryFolder folder;
  Job job;
  SimCluster first, second;
};

TEST(FaultSimulation, AServerThatWakesUpAfterItsJobWasResumedChangesNothing) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ResumedJob jobs(seed);
    jobs.job.before_step = [&](uint64_t step) {
      if (!jobs.second.Happens(0.2)) return;
      const auto manifest = io::ReadManifest(jobs.job.checkpoints);
      ASSERT_TRUE(manifest.ok());
      Shard& suspended = jobs.first.shard(jobs.second.Below(jobs.job.shards));
      const Status saved = suspended.Save({.id = step + jobs.second.Below(100)});
      EXPECT_EQ(saved.code(), Code::kInvalid) << "at step " << step;
      if (manifest->checkpoint) ExpectCommitted(jobs.job, *manifest->checkpoint);
    };
    jobs.RunSecond();
    EXPECT_TRUE(SameBits(WeightsOf(jobs.second, jobs.job), Serial(jobs.job)));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FaultSimulation, AServerThatIsSuspendedWhileItSavesChangesNothingWhenItWakesUp) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ResumedJob jobs(seed);
    bool resumed = false;
    jobs.first.while_saving = [&] {
      if (!std::exchange(resumed, true)) jobs.RunSecond();
    };
    const Status saved = jobs.first.shard(0).Save({.id = 1000});
    EXPECT_TRUE(resumed);
    EXPECT_EQ(saved.code(), Code::kInvalid);
    const auto manifest = io::ReadManifest(jobs.job.checkpoints);
    ASSERT_TRUE(manifest.ok() && manifest->checkpoint);
    ExpectCommitted(jobs.job, *manifest->checkpoint);
    EXPECT_TRUE(SameBits(WeightsOf(jobs.second, jobs.job), Serial(jobs.job)));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace millrace::ps
