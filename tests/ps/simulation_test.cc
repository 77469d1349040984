// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ps/worker/job_session.h"
#include "ps/worker/remote_dense_store.h"
#include "tests/support/sim_job.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

constexpr uint64_t kDenseSteps = 12;

TEST(Simulation, SyncEqualsTheSerialSumBitForBit) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed, .shards = 1 + seed % 4, .workers = 1 + seed % 5};
    EXPECT_TRUE(SameBits(RunJob(job), Serial(job)));
  }
}

TEST(Simulation, SyncStaysTheSameWhateverTheNetworkDoes) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {
        .seed = seed, .shards = 1 + seed % 3, .workers = 1 + seed % 4, .faults = kBadNetwork};
    EXPECT_TRUE(SameBits(RunJob(job), Serial(job)));
  }
}

TEST(Simulation, SyncStaysTheSameWhenWorkersCrashAndRejoin) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 3,
                     .workers = 2 + seed % 3,
                     .faults = kBadNetwork,
                     .crash = 0.05};
    EXPECT_TRUE(SameBits(RunJob(job), Serial(job)));
  }
}

TEST(Simulation, SyncStaysTheSameWithCheckpointsInBetween) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const millrace::test::MemoryFolder folder;
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 3,
                     .workers = 1 + seed % 4,
                     .faults = kBadNetwork,
                     .crash = seed % 2 ? 0.05 : 0,
                     .checkpoint = 0.3,
                     .checkpoints = folder.path()};
    EXPECT_TRUE(SameBits(RunJob(job), Serial(job)));
  }
}

// All processes crash, servers included. The restored job gives the model of an uninterrupted one.
TEST(Simulation, RestoredJobGivesTheSameModel) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const millrace::test::MemoryFolder folder;
    Job job = {.seed = seed,
               .shards = 1 + seed % 3,
               .workers = 1 + seed % 4,
               .faults = kBadNetwork,
               .checkpoint = 0.5,
               .stop_at = 10 + seed % 15,
               .checkpoints = folder.path()};
    {
      SimCluster cluster(job.seed, job.shards, job.workers, job.faults, job.checkpoints);
      cluster.Run([&](size_t worker) {
        Status status;
        EXPECT_FALSE(Live(job, cluster, worker, false, status)) << status.message();
      });
    }
    job.resume = true;
    job.stop_at = ~uint64_t{0};
    EXPECT_TRUE(SameBits(RunJob(job), Serial(job)));
  }
}

// Factorization machines: a pull brings blocks of factors, and a push those of their gradients.
TEST(Simulation, FactorsStayTheSameWhateverHappensInSync) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const millrace::test::MemoryFolder folder;
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 3,
                     .workers = 1 + seed % 4,
                     .faults = kBadNetwork,
                     .crash = seed % 2 ? 0.05 : 0,
                     .checkpoint = 0.3,
                     .checkpoints = folder.path(),
                     .factors = seed % 2 ? 4u : 12u};
    const std::vector<float> numbers = RunJob(job);
    EXPECT_TRUE(SameBits(numbers, Serial(job)));
    EXPECT_TRUE(
        std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); }));
  }
}

TEST(Simulation, EveryPushOfFactorsIsAppliedOnceWithoutSync) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 3,
                     .workers = 1 + seed % 4,
                     .mode = seed % 2 ? Mode::kAsync : Mode::kSsp,
                     .faults = kBadNetwork,
                     .crash = 0.03,
                     .ones = true,
                     .factors = 8};
    EXPECT_EQ(RunJob(job), ExpectedCounts(job));
  }
}

// Two parameters on one server (one thread per worker then calls it), in plain loops.
std::vector<float> SerialDense(const Job& job) {
  std::vector<float> weights(7, 1.0f);
  for (uint64_t step = 0; step < kDenseSteps; ++step) {
    std::vector<float> mean(weights.size());
    for (size_t worker = 0; worker < job.workers; ++worker) {
      const auto share =
          static_cast<float>(static_cast<double>(worker + 1) /
                             static_cast<double>(job.workers * (job.workers + 1) / 2));
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += share * (0.5f * weights[i] + static_cast<float>(worker + i));
      }
    }
    for (size_t i = 0; i < mean.size(); ++i) weights[i] -= 0.25f * mean[i];
  }
  return weights;
}

void LiveDense(const Job& job, SimCluster& cluster, size_t worker, std::vector<float>& weights) {
  SessionOptions options = OptionsOf(job, worker, false);
  options.config.num_features = 0;
  options.config.dense = {.rule = sparse::DenseRule::kSgd, .rate = 0.25};
  SimTransport transport(cluster, worker);
  auto session = JobSession::Join(options, transport, cluster);
  ASSERT_TRUE(session.ok()) << session.status().message();
  if (job.resume && worker == 0) {
    ASSERT_TRUE((*session)->RestoreLatest().ok());
  }
  RemoteDenseStore store(**session);
  weights.assign(7, worker == 0 ? 1.0f : 99.0f);
  const std::vector<sparse::DenseParam> params = {
      {.name = "a", .weights = std::span(weights).first(3)},
      {.name = "b", .weights = std::span(weights).subspan(3)}};
  ASSERT_TRUE(store.Init(params).ok());
  std::vector<float> gradient(7);
  const auto rows = static_cast<uint32_t>(worker + 1);
  for (uint64_t step = store.resume_point().sequence; step < kDenseSteps; ++step) {
    if (step == job.stop_at) return;
    for (size_t i = 0; i < 7; ++i) {
      gradient[i] = 0.5f * weights[i] + static_cast<float>(worker + i);
    }
    store.SetStep({.rows = rows, .weight = 1.0 * rows, .loss = 1}, std::to_string(step + 1));
    ASSERT_TRUE(store.Push(1, std::span(gradient).subspan(3)).ok());
    ASSERT_TRUE(store.Push(0, std::span(gradient).first(3)).ok());
    const Status pulled = store.Pull(0);
    ASSERT_TRUE(pulled.ok() && store.Pull(1).ok()) << pulled.message();
    const uint64_t made = (*session)->progress().step;
    EXPECT_EQ(made, step + 1);
    if (worker == 0 && cluster.Happens(job.checkpoint)) {
      ASSERT_TRUE((*session)->Checkpoint(made, "state").ok());
    }
  }
  ASSERT_TRUE((*session)->Finish().ok() && (*session)->Leave().ok());
}

TEST(Simulation, DenseBlocksEqualTheSerialMeanWithCheckpointsAndARestart) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const millrace::test::MemoryFolder folder;
    Job job = {.seed = seed,
               .workers = 1 + seed % 4,
               .faults = {.lose_request = 0.02, .lose_reply = 0.02},
               .checkpoint = 0.5,
               .stop_at = 6,
               .checkpoints = folder.path()};
    std::vector<std::vector<float>> weights(job.workers);
    for (const bool resume : {false, true}) {
      job.resume = resume;
      if (resume) job.stop_at = ~uint64_t{0};
      SimCluster cluster(job.seed, 1, job.workers, job.faults, job.checkpoints);
      cluster.Run([&](size_t worker) { LiveDense(job, cluster, worker, weights[worker]); });
    }
    for (const std::vector<float>& mine : weights) EXPECT_TRUE(SameBits(mine, SerialDense(job)));
  }
}

TEST(Simulation, AsyncAppliesEveryPushOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 4,
                     .workers = 1 + seed % 4,
                     .mode = seed % 2 ? Mode::kAsync : Mode::kSsp,
                     .faults = kBadNetwork,
                     .crash = seed % 3 ? 0 : 0.03,
                     .ones = true};
    EXPECT_EQ(RunJob(job), ExpectedCounts(job));
  }
}

// All processes crash. Another number of servers restores what was applied when the last checkpoint
// was written: no push is lost or applied twice, because all shards had the same ones.
TEST(Simulation, RestoredAsyncJobAppliesEveryPushOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const millrace::test::MemoryFolder folder;
    Job job = {.seed = seed,
               .shards = 1 + seed % 4,
               .workers = 1 + seed % 4,
               .mode = seed % 2 ? Mode::kAsync : Mode::kSsp,
               .faults = kBadNetwork,
               .crash = seed % 3 ? 0 : 0.03,
               .checkpoint = 0.2,
               .checkpoints = folder.path(),
               .ones = true};
    EXPECT_EQ(RunJob(job), ExpectedCounts(job));
    job.resume = true;
    job.shards = 1 + (seed + 1 + seed / 4) % 4;
    EXPECT_EQ(RunJob(job), ExpectedCounts(job));
    if (testing::Test::HasFailure()) return;
  }
}

// How far the workers of any shard are apart.
uint64_t Spread(const Job& job, SimCluster& cluster) {
  uint64_t widest = 0;
  for (size_t s = 0; s < job.shards && cluster.shard(s).joined(); ++s) {
    uint64_t least = ~uint64_t{0}, most = 0;
    for (size_t w = 0; w < job.workers; ++w) {
      const WorkerRecord& record = cluster.shard(s).worker(w);
      if (record.phase != WorkerPhase::kJoined) return 0;
      least = std::min(least, record.received);
      most = std::max(most, record.received);
    }
    widest = std::max(widest, most - least);
  }
  return widest;
}

TEST(Simulation, NoWorkerRunsAheadOfTheStalenessBound) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 3,
                     .workers = 3,
                     .mode = Mode::kSsp,
                     .staleness = seed % 4,
                     .ones = true};
    SimCluster cluster(job.seed, job.shards, job.workers, job.faults);
    uint64_t widest = 0;
    cluster.Run([&](size_t worker) {
      if (worker != 1) return LiveOn(job, cluster, worker);
      SimTransport transport(cluster, worker);
      auto session = JobSession::Join(OptionsOf(job, worker, false), transport, cluster);
      ASSERT_TRUE(session.ok() && (*session)->Start().ok());
      RemoteStore store(**session);
      for (uint64_t step = 0; step < kSteps; ++step) {
        for (int look = 0; look < 100; ++look) {
          cluster.Yield(worker);
          widest = std::max(widest, Spread(job, cluster));
        }
        ASSERT_TRUE(Step(job, cluster, store, worker, step).ok());
      }
      ASSERT_TRUE(store.Flush().ok() && (*session)->Finish().ok() && (*session)->Leave().ok());
    });
    // A push that is one step too far ahead is received, and its reply waits. The others must have
    // come that far: this worker is slow.
    EXPECT_EQ(widest, job.staleness + 1);
  }
}

TEST(Simulation, BackupWorkersMakeTheStepAndLateOnesAreDropped) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed, .workers = 4, .replicas = 3, .ones = true, .slow_worker = 2};
    SimCluster cluster(job.seed, job.shards, job.workers, job.faults);
    cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
    uint64_t pushes = 0, dropped = 0;
    for (size_t w = 0; w < job.workers; ++w) {
      pushes += cluster.shard(0).worker(w).pushes;
      dropped += cluster.shard(0).worker(w).dropped;
      EXPECT_EQ(cluster.shard(0).worker(w).received, kSteps);
    }
    EXPECT_EQ(pushes + dropped, job.workers * kSteps);
    EXPECT_GT(cluster.shard(0).worker(2).dropped, 0u);
    EXPECT_EQ(cluster.shard(0).progress().examples, pushes);
  }
}

// A worker that is lost between its pushes to two servers: the chief says so at the end.
TEST(Simulation, ABatchThatReachedSomeServersOnlyIsReported) {
  uint64_t reported = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed, .shards = 3, .workers = 2, .mode = Mode::kAsync, .ones = true};
    SimCluster cluster(job.seed, job.shards, job.workers, {});
    std::string notes;
    cluster.Run([&](size_t worker) {
      SimTransport transport(cluster, worker);
      SessionOptions options = OptionsOf(job, worker, false);
      options.wait.on_note = [&](const std::string& note) { notes += note + "\n"; };
      auto session = JobSession::Join(options, transport, cluster);
      ASSERT_TRUE(session.ok() && (*session)->Start().ok());
      RemoteStore store(**session);
      for (uint64_t step = 0; step < 5; ++step) {
        ASSERT_TRUE(Step(job, cluster, store, worker, step).ok());
      }
      if (worker == 1) return;  // lost, with a push on its way
      ASSERT_TRUE(store.Flush().ok() && (*session)->Finish().ok());
      ASSERT_TRUE((*session)->WaitAllFinished().ok());
      ASSERT_TRUE((*session)->Leave().ok());
    });
    bool partial = false;
    for (size_t s = 1; s < job.shards; ++s) {
      partial |= cluster.shard(s).worker(1).pushes != cluster.shard(0).worker(1).pushes;
    }
    EXPECT_EQ(notes.find("worker 1 was lost: its last batch did not reach server") != notes.npos,
              partial)
        << notes;
    reported += partial ? 1 : 0;
  }
  EXPECT_GT(reported, 5u);
}

TEST(Simulation, LostWorkerEndsASyncJobButNotAnAsyncJob) {
  for (const Mode mode : {Mode::kSync, Mode::kAsync, Mode::kSsp}) {
    SCOPED_TRACE(ModeName(mode));
    const Job job = {.seed = 7, .shards = 2, .workers = 3, .mode = mode, .ones = true};
    SimCluster cluster(job.seed, job.shards, job.workers, {});
    cluster.Run([&](size_t worker) {
      Status status;
      Job mine = job;
      if (worker == 2) mine.crash = 0.2;
      const bool lived = Live(mine, cluster, worker, false, status);
      EXPECT_EQ(lived, worker != 2);
      if (worker == 2) return;
      EXPECT_EQ(status.ok(), mode != Mode::kSync) << status.message();
      if (mode != Mode::kSync) return;
      EXPECT_NE(status.message().find("worker 2"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("did not come back"), std::string::npos);
    });
  }
}

}  // namespace
}  // namespace millrace::ps
