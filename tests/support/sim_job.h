// SPDX-License-Identifier: Apache-2.0
// Jobs for the simulation: what their workers do, and what must come out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "io/state/checkpoint_folder.h"
#include "io/state/manifest.h"
#include "ps/wire/float_codec.h"
#include "ps/wire/key_codec.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "sparse/checkpoint.h"
#include "sparse/value_scale.h"
#include "tests/support/sim_cluster.h"

namespace millrace::ps::test {

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
  double crash = 0;                 // a worker's process crashes before a step
  double checkpoint = 0;            // after a step
  bool resume = false;              // from the newest checkpoint
  uint64_t stop_at = ~uint64_t{0};  // all processes crash before this step
  std::string checkpoints = {};     // folder
  bool ones = false;  // gradients of -1: a weight then counts the pushes that touched it
  size_t slow_worker = ~size_t{0};
  double misbehave = 0;  // a worker makes a call that it may not make, before a step
  std::function<void(uint64_t step)> before_step = nullptr;

  uint32_t factors = 0;  // of a factorization machine; 0: an lr

  // The seed decides whether values are normalized: two numbers for each key.
  bool has_scales() const { return seed % 3 == 2 && !ones; }
  sparse::FactorShape shape() const {
    if (factors == 0) return {};
    return {.kind = sparse::ModelKind::kFm, .factors = factors, .init = 0.1, .seed = seed};
  }
  // In an exchange.
  NumberLayout layout() const {
    return {.per_key = has_scales() ? size_t{2} : size_t{1}, .per_feature = shape().width()};
  }
};

inline std::vector<uint64_t> KeysOf(const Job& job, size_t worker, uint64_t step) {
  Random random(DeriveSeed(job.seed, worker, step));
  std::vector<uint64_t> keys;
  if (random.Below(10) == 0) return keys;  // a batch may have none
  for (uint64_t key = 0; key < kFeatures; ++key) {
    if (random.Below(8) == 0) keys.push_back(key);
  }
  keys.push_back(io::kInterceptKey);
  return keys;
}

// A worker's largest |value| of a key: 2^-3 to 2^6, growing now and then.
inline float LargestOf(const Job& job, size_t worker, uint64_t step, uint64_t key) {
  Random random(DeriveSeed(job.seed + 2, worker * 1000 + step, key));
  return std::ldexp(1.0f, static_cast<int>(random.Below(4) + step / 5) - 3);
}

// Each number of it depends on all weights (and scales), as in a real model: weights of different
// steps on different shards would show.
inline std::vector<float> GradientOf(const Job& job, size_t worker, uint64_t step,
                                     std::span<const uint64_t> keys,
                                     std::span<const float> weights) {
  float sum = 0;
  for (const float w : weights) sum += w;
  const std::span<const uint64_t> features = io::FeatureKeys(keys);
  const std::span<const float> factors = weights.last(features.size() * job.factors);
  std::vector<float> gradient(keys.size(), -1.0f);
  for (size_t i = 0; i < keys.size() && !job.ones; ++i) {
    Random random(DeriveSeed(job.seed + 1, worker * 1000 + step, keys[i]));
    gradient[i] = static_cast<float>(random.Uniform() - 0.5) + 0.03125f * sum;
  }
  for (size_t i = 0; i < keys.size() && job.has_scales(); ++i) {
    gradient.push_back(LargestOf(job, worker, step, keys[i]));
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    gradient.push_back(job.ones ? -1.0f : 0.0625f * (factors[i] + gradient[i / job.factors]));
  }
  return gradient;
}

inline uint32_t RowsOf(const Job& job, size_t worker, uint64_t step) {
  return job.ones ? 1 : 1 + static_cast<uint32_t>((worker + step) % 3);
}

inline JobConfig ConfigOf(const Job& job) {
  JobConfig config;
  config.num_workers = job.workers;
  config.num_shards = job.shards;
  config.mode = job.mode;
  config.staleness = job.staleness;
  config.replicas_to_aggregate = job.replicas;
  config.num_features = kFeatures;
  config.update.rule = sparse::Rule::kSgd;
  config.update.rate = job.ones ? 1 : 0.3;
  config.update.normalize = job.has_scales();
  config.factors = job.shape();
  return config;
}

inline SessionOptions OptionsOf(const Job& job, size_t worker, bool again) {
  SessionOptions options;
  options.config = ConfigOf(job);
  options.worker = worker;
  options.rejoin = again;
  options.checkpoints = job.checkpoints;
  return options;
}

// Batch n + 1 is that of step n. Now and then the wrong keys are prefetched, or none.
inline Status Step(const Job& job, SimCluster& cluster, RemoteStore& store, size_t worker,
                   uint64_t step) {
  const std::vector<uint64_t> keys = KeysOf(job, worker, step);
  if (step + 1 < kSteps && cluster.Happens(0.9)) {
    if (cluster.Happens(0.1)) store.Prefetch(kSteps + step, std::vector<uint64_t>{1, 2, 3});
    if (cluster.Happens(0.9)) store.Prefetch(step + 2, KeysOf(job, worker, step + 1));
  }
  std::vector<float> weights(job.layout().Count(keys));
  RETURN_IF_ERROR(store.PullBatch(step + 1, keys, weights));
  for (int i = 0; worker == job.slow_worker && i < 30; ++i) cluster.Yield(worker);
  const std::vector<float> gradient = GradientOf(job, worker, step, keys, weights);
  const uint32_t rows = RowsOf(job, worker, step);
  store.SetState(std::to_string(step + 1));
  return store.Push(
      keys, gradient,
      {.batch = step + 1, .rows = rows, .weight = 2 * static_cast<double>(rows), .loss = 1});
}

// The manifest names that checkpoint, and all shards have it, with the same pushes of each worker.
inline void ExpectCommitted(const Job& job, uint64_t id) {
  const auto manifest = io::ReadManifest(job.checkpoints);
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->checkpoint, id);
  std::vector<uint64_t> pushes;
  for (size_t shard = 0; shard < job.shards; ++shard) {
    const std::string folder = job.checkpoints + "/shard-" + std::to_string(shard);
    const auto part = sparse::ReadPartInfo(io::CheckpointPath(folder, id));
    ASSERT_TRUE(part.ok()) << part.status().message();
    std::vector<uint64_t> mine;
    for (const sparse::WorkerPosition& worker : part->workers) mine.push_back(worker.sequence);
    if (shard == 0) pushes = mine;
    EXPECT_EQ(mine, pushes) << folder;
  }
}

// The chief saves the model after some steps.
inline Status MayCheckpoint(const Job& job, SimCluster& cluster, JobSession& session,
                            RemoteStore& store) {
  if (!session.chief() || !cluster.Happens(job.checkpoint)) return {};
  RETURN_IF_ERROR(store.Flush());
  RETURN_IF_ERROR(session.HoldPushes());
  const uint64_t step = session.progress().step;
  RETURN_IF_ERROR(session.Checkpoint(step, std::to_string(step)));
  ExpectCommitted(job, step);
  return {};
}

// A call that the protocol forbids, by a worker that holds the token. It must be refused and change
// nothing.
inline void Misbehave(const Job& job, SimCluster& cluster, JobSession& session, RemoteStore& store,
                      uint64_t step) {
  ASSERT_TRUE(store.Flush().ok());
  const size_t shard = cluster.Below(job.shards);
  const size_t victim = cluster.Below(job.workers);
  bool done = false;
  ExchangeReply reply;
  ExchangeRequest push;
  std::string keys, gradient;
  EncodeKeys(std::vector<uint64_t>{1}, keys);
  FloatCodec floats;
  const std::vector<float> numbers(job.layout().Count(1, 1), 1.0f);
  EXPECT_TRUE(floats.Encode(numbers, {}, gradient).ok());
  push.pushes = true;
  push.rows = 1;
  push.push_list = ListSignature(keys);
  push.push_keys = keys;
  push.gradient = gradient;
  const auto exchange = [&](Channel& channel) -> Status {
    RETURN_IF_ERROR(channel.SendExchange(push));
    Status status;
    do {
      status = channel.ReceiveExchange(reply);
    } while (status.ok() && reply.outcome == Outcome::kBlocked);
    return status;
  };
  const uint64_t kind = cluster.Below(6);
  const auto refused = [&](const std::function<Status(Channel&)>& call) {
    const Status status = session.client(shard).Call(call);
    EXPECT_TRUE(status.code() == Code::kInvalid || status.code() == Code::kFailed)
        << "call " << kind << ": " << status.message();
  };
  switch (kind) {
    case 0:  // the chief's alone
      if (session.chief()) return;
      return refused([&](Channel& c) { return c.Checkpoint({.id = step, .committed = 0}, done); });
    case 1:
      return refused([&](Channel& c) -> Status {
        do {
          RETURN_IF_ERROR(c.Restore({.id = step, .shards = job.shards}, done));
        } while (!done);
        return {};
      });
    case 2:
      return refused([&](Channel& c) { return c.Load(""); });
    case 3:  // a push out of order
      push.sequence = session.sequence() + 5;
      return refused(exchange);
    case 4:  // from the future; ignored where a push of that number was received before
      push.sequence = session.sequence() + 1;
      push.step = ~uint64_t{0} >> 1;
      (void)session.client(shard).Call(exchange);
      return;
    default: {  // takes the place of another worker
      WorkerHandler intruder(cluster.access(shard));
      JoinRequest join;
      join.worker = victim;
      join.config = ConfigOf(job).Fields().Encode();
      join.process = 99;
      join.rejoin = true;
      JoinReply joined;
      // It succeeds only if its victim has no connection; then it is lost at once, too.
      const Status status = intruder.Join(join, joined);
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid) << status.message();
    }
  }
}

// Runs a worker's process. False if it crashed before its work was done.
inline bool Live(const Job& job, SimCluster& cluster, size_t worker, bool again, Status& status) {
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
    if (job.before_step) job.before_step(step);
    if (cluster.Happens(job.misbehave)) Misbehave(job, cluster, session, store, step);
    if (step == job.stop_at) {
      status = store.Flush();
      return !status.ok();
    }
    status = Step(job, cluster, store, worker, step);
    if (status.ok()) status = MayCheckpoint(job, cluster, session, store);
  }
  if (status.ok()) status = store.Flush();
  if (status.ok()) status = session.Finish();
  if (status.ok() && session.chief()) status = session.WaitAllFinished();
  if (status.ok()) status = session.Leave();
  return true;
}

inline void LiveOn(const Job& job, SimCluster& cluster, size_t worker) {
  Status status;
  for (bool again = false; !Live(job, cluster, worker, again, status); again = true) {
  }
  EXPECT_TRUE(status.ok()) << status.message();
}

// Where the weight of a key is in the vectors below: the intercept comes behind the features, and
// the factors of all features follow.
inline size_t IndexOf(uint64_t key) { return key == io::kInterceptKey ? kFeatures : key; }
inline size_t NumbersOf(const Job& job) { return kFeatures + 1 + kFeatures * job.factors; }
inline std::span<float> FactorsOf(const Job& job, std::vector<float>& numbers, uint64_t key) {
  return std::span(numbers).subspan(kFeatures + 1 + key * job.factors, job.factors);
}

inline std::vector<float> WeightsOf(SimCluster& cluster, const Job& job) {
  const Sharding sharding(kFeatures, job.shards);
  std::vector<float> weights(NumbersOf(job));
  for (uint64_t i = 0; i <= kFeatures; ++i) {
    const Sharding::Place place = sharding.Of(i < kFeatures ? i : io::kInterceptKey);
    sparse::LocalStore& store = cluster.shard(place.shard).store();
    EXPECT_TRUE(store.Pull({&place.local, 1}, {&weights[i], 1}).ok());
    if (i == kFeatures) continue;
    EXPECT_TRUE(store.PullFactors({&place.local, 1}, FactorsOf(job, weights, i)).ok());
  }
  return weights;
}

// Weights by key after the whole job.
inline std::vector<float> RunJob(const Job& job) {
  SimCluster cluster(job.seed, job.shards, job.workers, job.faults, job.checkpoints);
  cluster.Run([&](size_t worker) { LiveOn(job, cluster, worker); });
  return WeightsOf(cluster, job);
}

// What sync training must give, in plain loops: each step's gradients added up in the order of
// workers, divided by their rows, and applied once. With scales, the steps are those of the
// weights of normalized values. A feature has its initial factors, of normalized values, until it
// is trained.
inline std::vector<float> Serial(const Job& job) {
  std::vector<float> weights(NumbersOf(job)), scales(kFeatures + 1);
  std::vector<bool> trained(kFeatures);
  scales.back() = 1;  // the intercept's
  for (uint64_t step = 0; step < kSteps; ++step) {
    std::map<uint64_t, float> sum;
    std::map<uint64_t, std::vector<float>> block_sum;
    double rows = 0;
    for (size_t worker = 0; worker < job.workers; ++worker) {
      const std::vector<uint64_t> keys = KeysOf(job, worker, step);
      std::vector<float> pulled;
      for (const uint64_t key : keys) pulled.push_back(weights[IndexOf(key)]);
      for (size_t i = 0; i < keys.size() && job.has_scales(); ++i) {
        pulled.push_back(scales[IndexOf(keys[i])]);
      }
      for (const uint64_t key : io::FeatureKeys(keys)) {
        std::vector<float> factors(job.factors);
        InitialFactors(job.shape(), key, factors);
        const std::span<float> now = FactorsOf(job, weights, key);
        if (trained[key]) factors.assign(now.begin(), now.end());
        pulled.insert(pulled.end(), factors.begin(), factors.end());
      }
      const std::vector<float> gradient = GradientOf(job, worker, step, keys, pulled);
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto [at, is_new] = sum.emplace(keys[i], gradient[i]);
        if (!is_new) at->second += gradient[i];
      }
      const std::span<const uint64_t> features = io::FeatureKeys(keys);
      const std::span blocks = std::span(gradient).last(features.size() * job.factors);
      for (size_t i = 0; i < features.size(); ++i) {
        const auto [at, is_new] = block_sum.emplace(features[i], std::vector<float>(job.factors));
        for (size_t f = 0; f < job.factors; ++f) at->second[f] += blocks[i * job.factors + f];
      }
      rows += RowsOf(job, worker, step);
    }
    const std::vector<float> old_scales = scales;
    for (size_t worker = 0; worker < job.workers && job.has_scales(); ++worker) {
      for (const uint64_t key : KeysOf(job, worker, step)) {
        if (key == io::kInterceptKey) continue;
        scales[key] = std::max(scales[key], LargestOf(job, worker, step, key));
      }
    }
    for (size_t i = 0; i < kFeatures; ++i) {
      if (old_scales[i] <= 0) continue;
      const float growth = sparse::GrowthFactor(old_scales[i], scales[i]);
      weights[i] *= growth;
      for (float& v : FactorsOf(job, weights, i)) v *= growth;
    }
    for (const auto& [key, g] : sum) {
      const float scale = job.has_scales() ? scales[IndexOf(key)] : 1;
      weights[IndexOf(key)] -= 0.3f * (g * static_cast<float>(1 / rows)) / (scale * scale);
    }
    for (const auto& [key, g] : block_sum) {
      const float scale = job.has_scales() ? scales[key] : 1;
      const std::span<float> now = FactorsOf(job, weights, key);
      if (!trained[key]) {
        InitialFactors(job.shape(), key, now);
        for (float& v : now) v /= scale;
      }
      trained[key] = true;
      for (size_t f = 0; f < job.factors; ++f) {
        now[f] -= 0.3f * (g[f] * static_cast<float>(1 / rows)) / (scale * scale);
      }
    }
  }
  return weights;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<float> ExpectedCounts(const Job& job) {
  std::vector<float> counts(NumbersOf(job));
  for (size_t worker = 0; worker < job.workers; ++worker) {
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (const uint64_t key : KeysOf(job, worker, step)) {
        const bool is_new = counts[IndexOf(key)]++ == 0;
        if (key == io::kInterceptKey) continue;
        const std::span<float> factors = FactorsOf(job, counts, key);
        if (is_new) InitialFactors(job.shape(), key, factors);
        for (float& v : factors) ++v;
      }
    }
  }
  return counts;
}

}  // namespace millrace::ps::test
