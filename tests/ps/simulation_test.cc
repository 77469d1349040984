#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "io/base/random.h"
#include "ps/worker/remote_store.h"
#include "tests/ps/sim_cluster.h"

namespace millrace::ps {
namespace {

using test::SimCluster;
using test::SimFaults;
using test::SimTransport;

constexpr uint64_t kFeatures = 200;
constexpr uint64_t kSteps = 30;
constexpr SimFaults kBadNetwork = {.lose_request = 0.05, .lose_reply = 0.05, .repeat = 0.1};

struct Job {
  uint64_t seed = 0;
  size_t shards = 1;
  size_t workers = 1;
  Mode mode = Mode::kSync;
  uint64_t staleness = 2;
  uint64_t replicas = 0;
  SimFaults faults = {};
  double crash = 0;   // a worker's process dies before a step
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

RemoteOptions OptionsOf(const Job& job, size_t worker, bool again) {
  RemoteOptions options;
  options.config = ConfigOf(job);
  options.client.join.worker = worker;
  options.client.join.rejoin = again;
  return options;
}

// Of a step, of the one after it if there is one, and of the one after that.
struct StepKeys {
  bool is_last = true;
  std::vector<uint64_t> now, next, after;
  std::vector<uint64_t> decoy = {1, 2, 3};  // may be announced, and never comes
};

Status Step(const Job& job, SimCluster& cluster, RemoteStore& store, size_t worker, uint64_t step,
            const StepKeys& coming) {
  const std::span<const uint64_t> keys = coming.now;
  if (!coming.is_last) {
    const std::span<const uint64_t> not_ready, mistaken = coming.decoy;
    const std::span<const uint64_t> known = cluster.Happens(0.9) ? coming.after : not_ready;
    store.Announce(coming.next, cluster.Happens(0.1) ? mistaken : known);
  }
  std::vector<float> weights(keys.size());
  RETURN_IF_ERROR(store.Pull(keys, weights));
  for (int i = 0; worker == job.slow_worker && i < 30; ++i) cluster.Yield(worker);
  const std::vector<float> gradient = GradientOf(job, worker, step, keys, weights);
  const uint32_t rows = RowsOf(job, worker, step);
  store.Describe({.rows = rows, .weight = static_cast<double>(rows), .loss = 1});
  store.SetState(std::to_string(step + 1));
  return store.Push(keys, gradient);
}

// One life of a worker's process. False when it died before its work was done.
bool Live(const Job& job, SimCluster& cluster, size_t worker, bool again, Status& status) {
  SimTransport transport(cluster, worker);
  auto connected = RemoteStore::Connect(transport, cluster, OptionsOf(job, worker, again));
  status = connected.status();
  if (!status.ok()) return true;
  RemoteStore& store = **connected;
  const auto place = store.Start();
  status = place.status();
  if (!status.ok()) return true;
  EXPECT_EQ(place->state, place->sequence > 0 ? std::to_string(place->sequence) : "");
  const auto keys_of = [&](uint64_t step) {
    return step < kSteps ? KeysOf(job, worker, step) : std::vector<uint64_t>();
  };
  StepKeys keys = {
      .now = {}, .next = keys_of(place->sequence), .after = keys_of(place->sequence + 1)};
  for (uint64_t step = place->sequence; step < kSteps && status.ok(); ++step) {
    if (cluster.Happens(job.crash)) return false;
    keys.now.swap(keys.next);
    keys.next.swap(keys.after);
    keys.after = keys_of(step + 2);
    keys.is_last = step + 1 == kSteps;
    status = Step(job, cluster, store, worker, step, keys);
  }
  if (status.ok()) status = store.Finish();
  if (status.ok()) status = store.Leave();
  return true;
}

void LiveOn(const Job& job, SimCluster& cluster, size_t worker) {
  Status status;
  for (bool again = false; !Live(job, cluster, worker, again, status); again = true) {
  }
  EXPECT_TRUE(status.ok()) << status.message();
}

// Weights by key after the whole job.
std::vector<float> RunJob(const Job& job, uint64_t* answered_ahead = nullptr) {
  SimCluster cluster(job.seed, job.shards, job.workers, job.faults);
  cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
  for (size_t s = 0; s < job.shards; ++s) {
    cluster.shard(s).Settle();
    if (answered_ahead) *answered_ahead += cluster.shard(s).answered_ahead();
  }
  const Sharding sharding(kFeatures, job.shards);
  std::vector<float> weights(kFeatures);
  for (uint64_t key = 0; key < kFeatures; ++key) {
    const Sharding::Place place = sharding.Of(key);
    EXPECT_TRUE(
        cluster.shard(place.shard).store().Pull({&place.local, 1}, {&weights[key], 1}).ok());
  }
  return weights;
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

TEST(Simulation, SyncStaysTheSameWhenWorkersDieAndComeBack) {
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

// Servers that look ahead answer before they apply; the network and the worker's death come
// between.
TEST(Simulation, OneWorkerIsAnsweredAheadAndStaysTheSame) {
  uint64_t answered_ahead = 0, answers = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Job job = {.seed = seed,
                     .shards = 1 + seed % 4,
                     .workers = 1,
                     .faults = seed % 2 ? kBadNetwork : SimFaults(),
                     .crash = seed % 3 ? 0 : 0.05};
    EXPECT_TRUE(SameBits(RunJob(job, &answered_ahead), Serial(job)));
    answers += job.shards * kSteps;
  }
  EXPECT_GT(answered_ahead, answers / 4);
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
      auto store = RemoteStore::Connect(transport, cluster, OptionsOf(job, worker, false));
      ASSERT_TRUE(store.ok() && (*store)->Start().ok());
      for (uint64_t step = 0; step < kSteps; ++step) {
        for (int look = 0; look < 100; ++look) {
          cluster.Yield(worker);
          widest = std::max(widest, Spread(job, cluster));
        }
        const StepKeys keys = {
            .is_last = true, .now = KeysOf(job, worker, step), .next = {}, .after = {}};
        ASSERT_TRUE(Step(job, cluster, **store, worker, step, keys).ok());
      }
      ASSERT_TRUE((*store)->Finish().ok() && (*store)->Leave().ok());
    });
    // A push that is one too far ahead is taken in, and its answer waits. The others must have got
    // that far: this worker is slow.
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

TEST(Simulation, AWorkerThatNeverComesBackEndsASyncJobAndNotAnAsyncOne) {
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

// A list that was announced and did not come does not lend its place to one that comes later.
TEST(Simulation, AnAnnouncementIsForgottenWhenAnotherListComes) {
  const Job job;
  SimCluster cluster(job.seed, 1, 1, {});
  cluster.Run([&](size_t worker) {
    SimTransport transport(cluster, worker);
    auto connected = RemoteStore::Connect(transport, cluster, OptionsOf(job, worker, false));
    ASSERT_TRUE(connected.ok() && (*connected)->Start().ok());
    RemoteStore& store = **connected;
    const std::vector<uint64_t> first = {1}, second = {2}, third = {3};
    std::vector<uint64_t> reused = {4};
    std::vector<float> weights(1), gradient(1, -1.0f);
    const auto step = [&](std::span<const uint64_t> keys) {
      EXPECT_TRUE(store.Pull(keys, weights).ok());
      store.Describe({.rows = 1, .weight = 1});
      EXPECT_TRUE(store.Push(keys, gradient).ok());
    };
    store.Announce(second, reused);
    step(first);
    store.Announce(third, {});
    reused = {1};  // in the place of the list that never came
    step(second);
    store.Announce(reused, {});
    step(third);
    EXPECT_TRUE(store.Pull(reused, weights).ok());
    EXPECT_EQ(weights[0], 0.3f) << "of key 1, not of key 4";
    EXPECT_TRUE(store.Finish().ok() && store.Leave().ok());
  });
}

}  // namespace
}  // namespace millrace::ps
