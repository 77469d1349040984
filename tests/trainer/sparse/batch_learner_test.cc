// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/batch_learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/base/random.h"
#include "ps/worker/job_session.h"
#include "ps/worker/remote_store.h"
#include "tests/support/empty_store.h"
#include "tests/support/random_problem.h"
#include "tests/support/sim_cluster.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using io::kInterceptKey;
using sparse::Rule;
using sparse::UpdateOptions;

constexpr uint64_t kFeatures = 50;

// Rows of three entries with values, a label that depends on them and on an offset that only an
// intercept can learn, and a weight.
CsrBatch MakeBatch(Random& random, size_t rows, bool weighted) {
  CsrBatch batch;
  batch.Clear();
  for (size_t r = 0; r < rows; ++r) {
    double margin = 1;
    for (int i = 0; i < 3; ++i) {
      const auto key = static_cast<uint32_t>(random.Below(kFeatures));
      const float value = test::Normalish(random);
      batch.cols.push_back(key);
      batch.values.push_back(value);
      margin += (key % 5 - 2.0) * static_cast<double>(value);
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back(random.Uniform() < 1 / (1 + std::exp(-margin)) ? 1.0f : 0.0f);
    if (weighted) batch.weights.push_back(static_cast<float>(1 + random.Below(3)));
  }
  return batch;
}

CsrBatch Compacted(const CsrBatch& batch) {
  CsrBatch compacted = batch;
  io::KeyCompactor compactor(kFeatures);
  compactor.Compact(compacted.cols, compacted.keys);
  compacted.compacted = true;
  return compacted;
}

// The rules as their papers have them, in double precision, with the intercept as one more feature
// that is not regularised.
class NaiveModel {
 public:
  explicit NaiveModel(const UpdateOptions& options) : o_(options) {}

  void Learn(const CsrBatch& batch) {
    ++steps_;
    std::map<uint64_t, double> gradient;
    for (size_t r = 0; r < batch.rows(); ++r) {
      const double weight = batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[r]);
      const double residual =
          weight * (1 / (1 + std::exp(-Margin(batch, r))) - static_cast<double>(batch.labels[r]));
      for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
        gradient[batch.cols[i]] += residual * static_cast<double>(batch.values[i]);
      }
      gradient[kInterceptKey] += residual;
    }
    const bool mean = o_.rule == Rule::kSgd || o_.rule == Rule::kAdam;
    for (const auto& [key, g] : gradient) {
      Update(key, mean ? g / static_cast<double>(batch.rows()) : g);
    }
  }

  double Weight(uint64_t key) const {
    const auto found = slots_.find(key);
    return found == slots_.end() ? 0 : found->second.w;
  }

 private:
  struct Slot {
    double w = 0, a = 0, b = 0;
  };

  double Margin(const CsrBatch& batch, size_t r) const {
    double sum = Weight(kInterceptKey);
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      sum += static_cast<double>(batch.values[i]) * Weight(batch.cols[i]);
    }
    return sum;
  }

  void Update(uint64_t key, double g) {
    Slot& s = slots_[key];
    const double l1 = key == kInterceptKey ? 0 : o_.l1, l2 = key == kInterceptKey ? 0 : o_.l2;
    const double rate = o_.Rate();
    switch (o_.rule) {
      case Rule::kSgd:
        s.w -= rate * (g + l2 * s.w);
        return;
      case Rule::kAdaGrad:
        g += l2 * s.w;
        s.a += g * g;
        s.w -= rate * g / std::sqrt(s.a + o_.adagrad_epsilon);
        return;
      case Rule::kFtrl: {
        const double sigma = (std::sqrt(s.b + g * g) - std::sqrt(s.b)) / rate;
        s.a += g - sigma * s.w;
        s.b += g * g;
        const double sign = s.a < 0 ? -1 : 1;
        s.w = std::abs(s.a) <= l1
                  ? 0
                  : -(s.a - sign * l1) / ((o_.ftrl_beta + std::sqrt(s.b)) / rate + l2);
        return;
      }
      case Rule::kAdam:
        g += l2 * s.w;
        s.a = o_.adam_beta1 * s.a + (1 - o_.adam_beta1) * g;
        s.b = o_.adam_beta2 * s.b + (1 - o_.adam_beta2) * g * g;
        s.w -= rate * std::sqrt(1 - std::pow(o_.adam_beta2, steps_)) /
               (1 - std::pow(o_.adam_beta1, steps_)) * s.a / (std::sqrt(s.b) + o_.adam_epsilon);
        return;
    }
  }

  UpdateOptions o_;
  double steps_ = 0;
  std::map<uint64_t, Slot> slots_;
};

UpdateOptions OptionsOf(Rule rule, bool regularised) {
  UpdateOptions options = {.rule = rule, .rate = rule == Rule::kAdam ? 0.01 : 0.2};
  if (regularised) options.l2 = 0.5;
  if (regularised && rule == Rule::kFtrl) options.l1 = 3;
  return options;
}

float WeightOf(sparse::LocalStore& store, uint64_t key) {
  float weight = 0;
  EXPECT_TRUE(store.Pull({&key, 1}, {&weight, 1}).ok());
  return weight;
}

void ExpectNear(sparse::LocalStore& store, const NaiveModel& naive) {
  for (uint64_t key = 0; key < kFeatures; ++key) {
    ASSERT_NEAR(WeightOf(store, key), naive.Weight(key), 2e-4) << key;
  }
  ASSERT_NEAR(WeightOf(store, kInterceptKey), naive.Weight(kInterceptKey), 2e-4);
}

// On slots directly, through pull and push of a dense-index table, and of a hashed-key table.
TEST(BatchLearner, EqualsTheNaiveModelForEveryRule) {
  for (const Rule rule : sparse::kRules) {
    for (const bool regularised : {false, true}) {
      for (const auto& [rows, weighted] :
           {std::pair(size_t{1}, false), std::pair(size_t{100}, false), std::pair(size_t{1}, true),
            std::pair(size_t{100}, true)}) {
        SCOPED_TRACE(std::string(sparse::RuleName(rule)) + (regularised ? " regularised " : " ") +
                     std::to_string(rows) + (weighted ? " weighted" : ""));
        const UpdateOptions options = OptionsOf(rule, regularised);
        const auto direct = test::EmptyStore(kFeatures, options),
                   dense = test::EmptyStore(kFeatures, options),
                   hashed = test::EmptyStore(0, options);
        const auto* kernels = &sparse::NativeKernels();
        const auto direct_learner = MakeLocalLearner(*direct, *kernels, true),
                   dense_learner = MakeLocalLearner(*dense, *kernels, false),
                   hashed_learner = MakeLocalLearner(*hashed, *kernels, true);
        NaiveModel naive(options);
        Random random(3);
        for (int step = 0; step < 60; ++step) {
          const CsrBatch batch = MakeBatch(random, rows, weighted), compacted = Compacted(batch);
          naive.Learn(batch);
          ASSERT_TRUE(
              direct_learner
                  ->Learn(direct_learner->wants_compact_batches() ? compacted : batch, nullptr)
                  .ok());
          ASSERT_TRUE(dense_learner->Learn(compacted, nullptr).ok());
          ASSERT_TRUE(hashed_learner->Learn(compacted, nullptr).ok());
        }
        ASSERT_GT(std::abs(naive.Weight(kInterceptKey)), 0.01);
        for (sparse::LocalStore* store : {direct.get(), dense.get(), hashed.get()}) {
          ExpectNear(*store, naive);
        }
      }
    }
  }
}

CsrBatch RowsOf(const CsrBatch& batch, size_t begin, size_t end) {
  CsrBatch part;
  part.Clear();
  for (size_t r = begin; r < end; ++r) {
    for (uint32_t i = batch.row_begin[r]; i < batch.row_begin[r + 1]; ++i) {
      part.cols.push_back(batch.cols[i]);
      part.values.push_back(batch.values[i]);
    }
    part.row_begin.push_back(static_cast<uint32_t>(part.cols.size()));
    part.labels.push_back(batch.labels[r]);
    part.weights.push_back(batch.weights[r]);
  }
  return part;
}

// Two workers, each with half of the rows of a step, and two servers.
TEST(BatchLearner, SyncJobEqualsTheNaiveModelForEveryRule) {
  constexpr size_t kShards = 2, kWorkers = 2;
  for (const Rule rule : sparse::kRules) {
    for (const size_t rows : {2, 100}) {
      for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
        SCOPED_TRACE(std::string(sparse::RuleName(rule)) + " " + std::to_string(rows) + " " +
                     std::to_string(num_features));
        const UpdateOptions options = OptionsOf(rule, true);
        NaiveModel naive(options);
        std::vector<CsrBatch> batches;
        Random random(5);
        for (int step = 0; step < 40; ++step) {
          batches.push_back(MakeBatch(random, rows, true));
          naive.Learn(batches.back());
        }
        ps::test::SimCluster cluster(1, kShards, kWorkers, {}, "");
        cluster.Run([&](size_t worker) {
          ps::SessionOptions session_options;
          session_options.config.num_workers = kWorkers;
          session_options.config.num_shards = kShards;
          session_options.config.num_features = num_features;
          session_options.config.update = options;
          session_options.worker = worker;
          ps::test::SimTransport transport(cluster, worker);
          auto session = ps::JobSession::Join(session_options, transport, cluster);
          ASSERT_TRUE(session.ok() && (*session)->Start().ok());
          ps::RemoteStore store(**session);
          const auto learner =
              MakeStoreLearner(store, sparse::NativeKernels(), sparse::GradientScale::kSum);
          for (const CsrBatch& batch : batches) {
            const size_t half = rows / kWorkers;
            const CsrBatch own = RowsOf(batch, worker * half, (worker + 1) * half);
            ASSERT_TRUE(learner->Learn(Compacted(own), nullptr).ok());
          }
          ASSERT_TRUE(store.Flush().ok() && (*session)->Finish().ok() && (*session)->Leave().ok());
        });
        const ps::Sharding sharding(num_features, kShards);
        for (uint64_t i = 0; i <= kFeatures; ++i) {
          const uint64_t key = i < kFeatures ? i : kInterceptKey;
          const ps::Sharding::Place place = sharding.Of(key);
          ASSERT_NEAR(WeightOf(cluster.shard(place.shard).store(), place.local), naive.Weight(key),
                      2e-4)
              << key;
        }
        EXPECT_GT(std::abs(naive.Weight(kInterceptKey)), 0.01);
      }
    }
  }
}

TEST(BatchLearner, ModelWithoutInterceptHasNone) {
  for (const Rule rule : sparse::kRules) {
    for (const bool direct : {false, true}) {
      auto store = sparse::LocalStore::Create({.num_features = kFeatures, .intercept = false},
                                              {.rule = rule});
      ASSERT_TRUE(store.ok());
      const auto learner = MakeLocalLearner(**store, sparse::NativeKernels(), direct);
      Random random(4);
      for (int step = 0; step < 5; ++step) {
        const CsrBatch batch = MakeBatch(random, 10, false);
        ASSERT_TRUE(learner->Learn(direct ? batch : Compacted(batch), nullptr).ok());
      }
      size_t seen = 0;
      (*store)->ForEach([&](uint64_t key, std::span<const float>) {
        EXPECT_LT(key, kFeatures);
        ++seen;
      });
      EXPECT_GT(seen, 10u);
      float weight = 0;
      EXPECT_EQ((*store)->Pull({&kInterceptKey, 1}, {&weight, 1}).message(),
                "key: expected none of the intercept, which this model does not have");
    }
  }
}

// Keeps the last gradient; weights are constant.
class RecordingStore final : public sparse::WeightStore {
 public:
  bool has_intercept() const override { return true; }
  Status Pull(std::span<const uint64_t> keys, std::span<float> weights) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      weights[i] = keys[i] == kInterceptKey ? intercept : 0.1f * static_cast<float>(keys[i] % 7);
    }
    return {};
  }
  Status Push(std::span<const uint64_t> keys, std::span<const float> pushed,
              const sparse::PushInfo&) override {
    gradient.clear();
    for (size_t i = 0; i < keys.size(); ++i) gradient[keys[i]] = pushed[i];
    return {};
  }

  float intercept = 0.25f;
  std::map<uint64_t, float> gradient;
};

TEST(BatchLearner, GradientOfTheInterceptIsTheFiniteDifference) {
  RecordingStore store;
  const auto learner = MakeStoreLearner(store, sparse::PlainKernels(), sparse::GradientScale::kSum);
  for (uint64_t seed = 1; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    CsrBatch batch = test::RandomProblem(seed).batch;
    const auto loss_at = [&](float intercept) {
      store.intercept = intercept;
      return *learner->Learn(batch, nullptr);
    };
    constexpr float kStep = 1.0f / 64;
    const double difference = (loss_at(0.25f + kStep) - loss_at(0.25f - kStep)) / (2 * kStep);
    (void)loss_at(0.25f);
    EXPECT_NEAR(store.gradient.at(kInterceptKey), difference,
                1e-3 + 1e-3 * static_cast<double>(batch.rows()));
    EXPECT_EQ(store.gradient.size(), batch.keys.size() + 1);
  }
}

}  // namespace
}  // namespace millrace::trainer
