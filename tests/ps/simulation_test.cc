// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "io/base/random.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_dense_store.h"
#include "ps/worker/remote_store.h"
#include "tests/support/sim_cluster.h"
#include "tests/support/test_files.h"

namespace millrace::ps {
namespace {

using test::SimCluster;
using test::SimFaults;
using test::SimTransport;

constexpr uint64_t kFeatures = 200;
constexpr uint64_t kSteps = 30;
constexpr uint64_t kDenseSteps = 12;
constexpr SimFaults kBadNetwork = {.lose_request = 0.05, .lose_reply = 0.05, .repeat = 0.1};

struct Job {
  uint64_t seed = 0;
  size_t shards = 1;
  size_t workers = 1;
  Mode mode = Mode::kSync;
  uint64_t staleness = 2;
  uint64_t replicas = 0;
  SimFaults faults = {};
  double crash = 0;                 // a worker's process crashes before a step
  double checkpoint = 0;            // after a step
  bool resume = false;              // from the newest checkpoint
  uint64_t stop_at = ~uint64_t{0};  // all processes crash before this step
  std::string checkpoints = {};     // folder
  bool ones = false;  // gradients of -1: a weight then counts the pushes that touched it
  size_t slow_worker = ~size_t{0};
};

std::vector<uint64_t> KeysOf(const Job& job, size_t worker, uint64_t step) {
  Random random(DeriveSeed(job.seed, worker, step));
  std::vector<uint64_t> keys;
  if (random.Below(10) == 0) return keys;  // a batch may have none
  for (uint64_t key = 0; key < kFeatures; ++key) {
    if (random.Below(8) == 0) keys.push_back(key);
  }
  return keys;
}

// Each number of it depends on all weights, as in a real model: weights of different steps on
// different shards would show.
std::vector<float> GradientOf(const Job& job, size_t worker, uint64_t step,
                              std::span<const uint64_t> keys, std::span<const float> weights) {
  float sum = 0;
  for (const float w : weights) sum += w;
  std::vector<float> gradient(keys.size(), -1.0f);
  for (size_t i = 0; i < keys.size() && !job.ones; ++i) {
    Random random(DeriveSeed(job.seed + 1, worker * 1000 + step, keys[i]));
    gradient[i] = static_cast<float>(random.Uniform() - 0.5) + 0.03125f * sum;
  }
  return gradient;
}

uint32_t RowsOf(const Job& job, size_t worker, uint64_t step) {
  return job.ones ? 1 : 1 + static_cast<uint32_t>((worker + step) % 3);
}

JobConfig ConfigOf(const Job& job) {
  JobConfig config;
  config.num_workers = job.workers;
  config.num_shards = job.shards;
  config.mode = job.mode;
  config.staleness = job.staleness;
  config.replicas_to_aggregate = job.replicas;
  config.num_features = kFeatures;
  config.update.rule = sparse::Rule::kSgd;
  config.update.rate = job.ones ? 1 : 0.3;
  return config;
}

SessionOptions OptionsOf(const Job& job, size_t worker, bool again) {
  SessionOptions options;
  options.config = ConfigOf(job);
  options.worker = worker;
  options.rejoin = again;
  return options;
}

// Batch n + 1 is that of step n. Now and then the wrong keys are prefetched, or none.
Status Step(const Job& job, SimCluster& cluster, RemoteStore& store, size_t worker, uint64_t step) {
  const std::vector<uint64_t> keys = KeysOf(job, worker, step);
  if (step + 1 < kSteps && cluster.Happens(0.9)) {
    if (cluster.Happens(0.1)) store.Prefetch(kSteps + step, std::vector<uint64_t>{1, 2, 3});
    if (cluster.Happens(0.9)) store.Prefetch(step + 2, KeysOf(job, worker, step + 1));
  }
  std::vector<float> weights(keys.size());
  RETURN_IF_ERROR(store.PullBatch(step + 1, keys, weights));
  for (int i = 0; worker == job.slow_worker && i < 30; ++i) cluster.Yield(worker);
  const std::vector<float> gradient = GradientOf(job, worker, step, keys, weights);
  const uint32_t rows = RowsOf(job, worker, step);
  store.SetState(std::to_string(step + 1));
  return store.Push(
      keys, gradient,
      {.batch = step + 1, .rows = rows, .weight = static_cast<double>(rows), .loss = 1});
}

// The chief saves the model after some steps, in sync jobs.
Status MayCheckpoint(const Job& job, SimCluster& cluster, JobSession& session, RemoteStore& store) {
  if (!session.chief() || !cluster.Happens(job.checkpoint)) return {};
  RETURN_IF_ERROR(store.Flush());
  return session.Checkpoint(session.progress().step, std::to_string(session.progress().step));
}

// Runs a worker's process. False if it crashed before its work was done.
bool Live(const Job& job, SimCluster& cluster, size_t worker, bool again, Status& status) {
  SimTransport transport(cluster, worker);
  auto joined = JobSession::Join(OptionsOf(job, worker, again), transport, cluster);
  status = joined.status();
  if (!status.ok()) return true;
  JobSession& session = **joined;
  if (job.resume && session.chief() && !again) {
    const auto state = session.RestoreLatest();
    status = state.status();
    if (!status.ok()) return true;
    EXPECT_TRUE(state->has_value());
  }
  const auto resume_point = session.Start();
  status = resume_point.status();
  if (!status.ok()) return true;
  const uint64_t begin = resume_point->sequence;
  EXPECT_EQ(resume_point->state, begin > 0 ? std::to_string(begin) : "");
  RemoteStore store(session);
  for (uint64_t step = begin; step < kSteps && status.ok(); ++step) {
    if (cluster.Happens(job.crash)) return false;
    if (step == job.stop_at) {
      status = store.Flush();
      return !status.ok();
    }
    status = Step(job, cluster, store, worker, step);
    if (status.ok()) status = MayCheckpoint(job, cluster, session, store);
  }
  if (status.ok()) status = store.Flush();
  if (status.ok()) status = session.Finish();
  if (status.ok()) status = session.Leave();
  return true;
}

void LiveOn(const Job& job, SimCluster& cluster, size_t worker) {
  Status status;
  for (bool again = false; !Live(job, cluster, worker, again, status); again = true) {
  }
  EXPECT_TRUE(status.ok()) << status.message();
}

std::vector<float> WeightsOf(SimCluster& cluster, size_t shards) {
  const Sharding sharding(kFeatures, shards);
  std::vector<float> weights(kFeatures);
  for (uint64_t key = 0; key < kFeatures; ++key) {
    const Sharding::Place place = sharding.Of(key);
    EXPECT_TRUE(
        cluster.shard(place.shard).store().Pull({&place.local, 1}, {&weights[key], 1}).ok());
  }
  return weights;
}

// Weights by key after the whole job.
std::vector<float> RunJob(const Job& job) {
  SimCluster cluster(job.seed, job.shards, job.workers, job.faults, job.checkpoints);
  cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
  return WeightsOf(cluster, job.shards);
}

// What sync training must give, in plain loops: each step's gradients added up in the order of
// workers, divided by their weight, and applied once.
std::vector<float> Serial(const Job& job) {
  std::vector<float> weights(kFeatures);
  for (uint64_t step = 0; step < kSteps; ++step) {
    std::map<uint64_t, float> sum;
    double weight = 0;
    for (size_t worker = 0; worker < job.workers; ++worker) {
      const std::vector<uint64_t> keys = KeysOf(job, worker, step);
      std::vector<float> pulled;
      for (const uint64_t key : keys) pulled.push_back(weights[key]);
      const std::vector<float> gradient = GradientOf(job, worker, step, keys, pulled);
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto [at, is_new] = sum.emplace(keys[i], gradient[i]);
        if (!is_new) at->second += gradient[i];
      }
      weight += RowsOf(job, worker, step);
    }
    for (const auto& [key, g] : sum) weights[key] -= 0.3f * (g * static_cast<float>(1 / weight));
  }
  return weights;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> ExpectedCounts(const Job& job) {
  std::vector<float> counts(kFeatures);
  for (size_t worker = 0; worker < job.workers; ++worker) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (const uint64_t key : KeysOf(job, worker, step)) ++counts[key];
    }
  }
  return counts;
}

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
    const millrace::test::TemporaryFolder folder;
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
    const millrace::test::TemporaryFolder folder;
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
    const millrace::test::TemporaryFolder folder;
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
