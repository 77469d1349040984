// SPDX-License-Identifier: Apache-2.0
// Models with factors, from rows to scores.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "io/batch/key_compactor.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "tests/support/random_problem.h"
#include "tests/support/test_files.h"
#include "trainer/model/model_file.h"
#include "trainer/sparse/batch_learner.h"
#include "trainer/sparse/checkpoint.h"
#include "trainer/sparse/sparse_trainer.h"

namespace millrace::trainer {
namespace {

using io::CsrBatch;
using sparse::ModelKind;
using sparse::Rule;

constexpr uint64_t kFeatures = 60;

sparse::FactorShape Fm(uint32_t factors = 4) {
  return {.kind = ModelKind::kFm, .factors = factors, .init = 0.1, .seed = 3};
}

constexpr uint32_t kFields = 3;

sparse::FactorShape Ffm(uint32_t factors = 4) {
  sparse::FactorShape shape = Fm(factors);
  shape.kind = ModelKind::kFfm;
  shape.fields = kFields;
  return shape;
}

const std::vector<sparse::FactorShape> kShapes = {Fm(), Ffm()};

// The fields of an ffm are random: a row has several entries of one.
CsrBatch MakeBatch(Random& random, size_t rows, bool has_values) {
  CsrBatch batch;
  batch.Clear();
  for (size_t r = 0; r < rows; ++r) {
    for (size_t n = random.Below(6); n > 0; --n) {  // empty rows as well
      batch.cols.push_back(static_cast<uint32_t>(random.Below(kFeatures)));
      batch.fields.push_back(static_cast<uint16_t>(random.Below(kFields)));
      if (has_values) batch.values.push_back(3 * test::Normalish(random));
    }
    batch.row_begin.push_back(static_cast<uint32_t>(batch.cols.size()));
    batch.labels.push_back(static_cast<float>(random.Below(2)));
  }
  return batch;
}

CsrBatch Compacted(CsrBatch batch) {
  io::KeyCompactor(kFeatures).Compact(batch.cols, batch.keys);
  batch.compacted = true;
  return batch;
}

TEST(FactorLearner, StepsOnSlotsEqualThoseThroughPullAndPush) {
  for (const Rule rule : sparse::kRules) {
    for (const bool has_values : {false, true}) {
      for (const int variant : {0, 1, 2, 3}) {
        const bool normalize = variant % 2 == 1;
        const sparse::FactorShape& factors = kShapes[variant / 2];
        SCOPED_TRACE(std::string(sparse::RuleName(rule)) + (normalize ? " normalized " : " ") +
                     sparse::KindText(factors));
        const sparse::UpdateOptions update = {.rule = rule,
                                              .rate = rule == Rule::kSgd ? 0.02 : 0.0,
                                              .factor_l2 = 0.001,
                                              .normalize = normalize};
        std::vector<std::unique_ptr<sparse::LocalStore>> stores;
        std::vector<std::unique_ptr<BatchLearner>> learners;
        for (const uint64_t num_features : {kFeatures, kFeatures, uint64_t{0}}) {
          auto store = sparse::LocalStore::Create(
              {.num_features = num_features, .factors = factors}, update);
          ASSERT_TRUE(store.ok());
          stores.push_back(std::move(*store));
          learners.push_back(
              MakeLocalLearner(*stores.back(), sparse::PlainKernels(), learners.empty()));
        }
        EXPECT_EQ(learners[0]->wants_compact_batches(), rule == Rule::kSgd);
        Random random(5);
        for (int step = 0; step < 30; ++step) {
          const CsrBatch batch = MakeBatch(random, 20, has_values);
          const CsrBatch compacted = Compacted(batch);
          const bool direct = !learners[0]->wants_compact_batches();
          const auto a = learners[0]->Learn(direct ? batch : compacted);
          const auto b = learners[1]->Learn(compacted);
          const auto c = learners[2]->Learn(compacted);
          ASSERT_TRUE(a.ok() && b.ok() && c.ok());
          ASSERT_NEAR(*a, *b, 1e-3 * (1 + std::abs(*b))) << step;
          ASSERT_EQ(*b, *c) << step;
          const auto scores = learners[0]->Score(direct ? batch : compacted);
          const auto others = learners[2]->Score(compacted);
          ASSERT_TRUE(scores.ok() && others.ok());
          for (size_t r = 0; r < scores->size(); ++r) {
            ASSERT_NEAR((*scores)[r], (*others)[r], 2e-3 * (1 + std::abs((*others)[r])));
          }
        }
      }
    }
  }
}

// The label is whether two of the row's features are of the same parity: no linear model sees it.
void WriteRows(const std::string& path, uint64_t seed, int rows) {
  auto writer = io::RecordWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  Random random(seed);
  std::string record;
  for (int r = 0; r < rows; ++r) {
    const uint64_t a = random.Below(20), b = random.Below(20), c = random.Below(20);
    const bool is_likely = a % 2 == b % 2;
    const bool label = random.Uniform() < (is_likely ? 0.9 : 0.1);
    const std::vector<uint64_t> keys = {a, 20 + b, 40 + c};
    io::EncodeSparseExample({}, label, keys, {}, record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
}

class FactorModelTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.train.files = {folder_ / "train"};
    options_.test.files = {folder_ / "test"};
    WriteRows(options_.train.files[0], 1, 6000);
    WriteRows(options_.test.files[0], 2, 2000);
    options_.train.batch_size = 50;
    options_.train.shuffle_capacity = 500;
    options_.train.min_after_dequeue = 100;
    options_.test.shuffle_capacity = 0;
    options_.train.epochs = 2;
    SetFeatures(kFeatures);
    UseFactors(Fm());
  }

  void UseFactors(const sparse::FactorShape& factors) {
    options_.shape.factors = factors;
    options_.train.rows.num_fields = options_.test.rows.num_fields =
        factors.kind == ModelKind::kFfm ? factors.fields : 0;
  }

  void SetFeatures(uint64_t num_features) {
    options_.train.rows.num_features = options_.test.rows.num_features = num_features;
    options_.shape.num_features = num_features;
  }

  double Logloss(const TrainOptions& options) {
    double logloss = NAN;
    TrainObserver observer;
    observer.now_s = [] { return 0.0; };
    observer.on_evaluation = [&](const MetricsRow& row) {
      logloss = row.Metric("logloss");
      return Status();
    };
    auto trainer = SparseTrainer::Create(options, observer);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    if (!trainer.ok()) return NAN;
    const auto result = (*trainer)->Run();
    EXPECT_TRUE(result.ok()) << result.status().message();
    for (const auto& [name, format] : {std::pair{"model", ModelFormat::kBinary},
                                       {"text", ModelFormat::kText},
                                       {"npy", ModelFormat::kNpy}}) {
      EXPECT_TRUE((*trainer)->SaveModel(folder_ / name, format).ok());
    }
    return logloss;
  }

  Status Failure(const TrainOptions& options) {
    return SparseTrainer::Create(options, {.now_s = [] { return 0.0; }}).status();
  }

  test::TemporaryFolder folder_;
  TrainOptions options_;
};

TEST_F(FactorModelTest, EveryRuleFindsAnInteractionThatNoLinearModelSees) {
  for (const Rule rule : sparse::kRules) {
    for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
      SCOPED_TRACE(sparse::RuleName(rule));
      SetFeatures(num_features);
      options_.update.rule = rule;
      options_.update.rate = rule == Rule::kAdam ? 0.01 : 0.3;
      if (rule == Rule::kSgd) options_.update.rate = 3;
      for (const sparse::FactorShape& factors : kShapes) {
        UseFactors(factors);
        EXPECT_LT(Logloss(options_), 0.40) << sparse::KindText(factors);
      }
      UseFactors({});
      EXPECT_GT(Logloss(options_), 0.68);
    }
  }
}

TEST_F(FactorModelTest, OneSeedGivesTheSameModelWithAnyNumberOfThreads) {
  std::string first;
  for (const size_t threads : {1u, 2u, 3u}) {
    options_.train.threads = threads;
    Logloss(options_);
    if (first.empty()) first = test::ReadFile(folder_ / "model");
    EXPECT_EQ(test::ReadFile(folder_ / "model"), first);
  }
  options_.train.seed = options_.shape.factors.seed = 9;
  Logloss(options_);
  EXPECT_NE(test::ReadFile(folder_ / "model"), first);
}

TEST_F(FactorModelTest, ResumedRunEqualsAnUninterruptedOneBitForBit) {
  for (const Rule rule : sparse::kRules) {
    for (const int variant : {0, 1, 2, 3}) {
      const uint64_t num_features = variant % 2 == 0 ? kFeatures : 0;
      const std::string name = std::string(sparse::RuleName(rule)) + "-" + std::to_string(variant);
      SCOPED_TRACE(name);
      SetFeatures(num_features);
      UseFactors(kShapes[variant / 2]);
      options_.update.rule = rule;
      options_.checkpoints = folder_ / ("checkpoints-" + name);
      options_.resume = false;
      Logloss(options_);
      const std::string expected = test::ReadFile(folder_ / "model");
      options_.resume = true;
      int stops = 0;
      while (true) {
        int batches = 0;
        auto trainer = SparseTrainer::Create(
            options_, {.should_stop = [&] { return ++batches == 97; }, .now_s = [] { return 0.; }});
        ASSERT_TRUE(trainer.ok()) << trainer.status().message();
        const auto summary = (*trainer)->Run();
        ASSERT_TRUE(summary.ok()) << summary.status().message();
        ASSERT_TRUE((*trainer)->SaveModel(folder_ / "model", ModelFormat::kBinary).ok());
        if (summary->end != TrainSummary::End::kStopped) break;
        ++stops;
      }
      EXPECT_EQ(stops, 2);
      EXPECT_EQ(test::ReadFile(folder_ / "model"), expected);
    }
  }
}

std::vector<float> MarginsOf(const Model& model, uint64_t num_features) {
  Random random(8);
  CsrBatch batch = MakeBatch(random, 50, true);
  if (num_features == 0) batch = Compacted(batch);
  PodVector<float> scratch;
  std::vector<float> margins(batch.rows());
  EXPECT_TRUE(model.Margins(batch, scratch, margins).ok());
  return margins;
}

TEST_F(FactorModelTest, BinaryAndTextModelsGiveTheScoresOfTraining) {
  for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
    SetFeatures(num_features);
    Logloss(options_);
    const auto binary = LoadModel(folder_ / "model"), text = LoadModel(folder_ / "text");
    ASSERT_TRUE(binary.ok()) << binary.status().message();
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(binary->info().factors, options_.shape.factors);
    EXPECT_EQ(binary->info().weights, text->info().weights);
    EXPECT_EQ(MarginsOf(*binary, num_features), MarginsOf(*text, num_features));
    // All pairs of one row, by the model's own numbers.
    const auto a = binary->Factors(1), b = binary->Factors(22);
    ASSERT_EQ(a.size(), 4u);
    ASSERT_EQ(b.size(), 4u);
    float margin = binary->Weight(1) + binary->Weight(22) + binary->Weight(io::kInterceptKey);
    for (size_t f = 0; f < 4; ++f) margin += a[f] * b[f];
    CsrBatch batch;
    batch.Clear();
    batch.cols = {1, 22};
    batch.row_begin.push_back(2);
    batch.labels.push_back(0);
    if (num_features == 0) {
      batch.keys = {1, 22};
      batch.cols = {0, 1};
      batch.compacted = true;
    }
    PodVector<float> scratch;
    std::vector<float> found(1);
    ASSERT_TRUE(binary->Margins(batch, scratch, found).ok());
    EXPECT_NEAR(found[0], margin, 1e-5);
    EXPECT_NE(test::ReadFile(folder_ / "npy")
                  .find(num_features > 0 ? "'shape': (61,5)" : "('factors', '<f4', (4,))"),
              std::string::npos);
  }
}

TEST_F(FactorModelTest, AnFfmHasFactorsForEachFieldInEveryFormat) {
  UseFactors(Ffm());
  for (const uint64_t num_features : {kFeatures, uint64_t{0}}) {
    SetFeatures(num_features);
    Logloss(options_);
    const auto binary = LoadModel(folder_ / "model"), text = LoadModel(folder_ / "text");
    ASSERT_TRUE(binary.ok()) << binary.status().message();
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(binary->info().factors, Ffm());
    EXPECT_EQ(text->info().factors, Ffm());
    EXPECT_EQ(MarginsOf(*binary, num_features), MarginsOf(*text, num_features));
    // A row of feature 1 in field 0 and feature 22 in field 2.
    const auto a = binary->Factors(1), b = binary->Factors(22);
    ASSERT_EQ(a.size(), 4 * kFields);
    float margin = binary->Weight(1) + binary->Weight(22) + binary->Weight(io::kInterceptKey);
    for (size_t f = 0; f < 4; ++f) margin += a[2 * 4 + f] * b[f];
    CsrBatch batch;
    batch.Clear();
    batch.cols = {1, 22};
    batch.fields = {0, 2};
    batch.row_begin.push_back(2);
    batch.labels.push_back(0);
    if (num_features == 0) batch = Compacted(std::move(batch));
    PodVector<float> scratch;
    std::vector<float> found(1);
    ASSERT_TRUE(binary->Margins(batch, scratch, found).ok());
    EXPECT_NEAR(found[0], margin, 1e-5);
    EXPECT_NE(test::ReadFile(folder_ / "npy")
                  .find(num_features > 0 ? "'shape': (61,13)" : "('factors', '<f4', (12,))"),
              std::string::npos);
  }
}

TEST_F(FactorModelTest, ACheckpointReadsAsTheModel) {
  for (const Rule rule : sparse::kRules) {
    SCOPED_TRACE(sparse::RuleName(rule));
    UseFactors(rule == Rule::kFtrl ? Ffm() : Fm());
    options_.update.rule = rule;
    auto store = sparse::LocalStore::Create(options_.shape, options_.update);
    ASSERT_TRUE(store.ok());
    const auto learner = MakeLocalLearner(**store, sparse::PlainKernels(), false);
    Random random(1);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(learner->Learn(Compacted(MakeBatch(random, 20, false))).ok());
    }
    ASSERT_TRUE(SaveModel(**store, folder_ / "model", ModelFormat::kBinary).ok());
    const std::string checkpoints = folder_ / ("of-" + std::string(sparse::RuleName(rule)));
    RunCheckpoints run(checkpoints, "seed=1");
    ASSERT_TRUE(run.Save(**store, {.steps = 5}).ok());
    const auto model = LoadModel(folder_ / "model");
    const auto checkpoint = LoadModel(checkpoints + "/shard-0/checkpoint-000000000005");
    ASSERT_TRUE(model.ok() && checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ(MarginsOf(*model, kFeatures), MarginsOf(*checkpoint, kFeatures));
  }
}

TEST_F(FactorModelTest, AnotherKindOrWidthIsAnError) {
  options_.checkpoints = folder_ / "checkpoints";
  options_.checkpoint_every = 1000;
  Logloss(options_);
  TrainOptions other = options_;
  other.resume = true;
  other.shape.factors = Fm(8);
  EXPECT_NE(Failure(other).message().find(
                "model: this run has fm with 8 factors, the checkpoint fm with 4 factors"),
            std::string::npos)
      << Failure(other).message();
  other.shape.factors = Ffm();
  EXPECT_NE(Failure(other).message().find("this run has ffm with 4 factors for each of 3 fields, "
                                          "the checkpoint fm with 4 factors"),
            std::string::npos)
      << Failure(other).message();
  other.shape.factors = {};
  EXPECT_NE(Failure(other).message().find("this run has lr, the checkpoint fm with 4 factors"),
            std::string::npos)
      << Failure(other).message();
  TrainOptions next = options_;
  next.checkpoints = "";
  next.checkpoint_every = 0;
  next.shape.factors = Fm(8);
  next.continue_from = folder_ / "checkpoints/shard-0/checkpoint-000000000240";
  EXPECT_NE(Failure(next).message().find("the earlier one fm with 4 factors"), std::string::npos)
      << Failure(next).message();
  next.continue_from = "";
  next.model_in = folder_ / "model";
  EXPECT_NE(Failure(next).message().find(
                "expected a model of kind fm with 8 factors (or an lr), found fm with 4 factors"),
            std::string::npos)
      << Failure(next).message();
  next.shape.factors = {};
  EXPECT_NE(Failure(next).message().find("expected a model of kind lr, found fm with 4 factors"),
            std::string::npos)
      << Failure(next).message();
}

TEST_F(FactorModelTest, AModelWithFactorsStartsFromTheWeightsOfAnLrOrFromOneOfItsKind) {
  for (const sparse::FactorShape& factors : kShapes) {
    SCOPED_TRACE(sparse::KindText(factors));
    options_.model_in = "";
    options_.max_examples = 0;
    UseFactors({});
    Logloss(options_);
    std::filesystem::rename(folder_ / "model", folder_ / "lr");
    UseFactors(factors);
    options_.model_in = folder_ / "lr";
    options_.train.epochs = 3;
    const double first = Logloss(options_);
    EXPECT_LT(first, 0.40);
    std::filesystem::rename(folder_ / "model", folder_ / "with_factors");
    options_.model_in = folder_ / "with_factors";
    options_.train.epochs = 1;
    options_.max_examples = 100;
    EXPECT_LT(Logloss(options_), first + 0.02);
  }
}

TEST_F(FactorModelTest, ATextModelWithWrongFactorsIsCorrupt) {
  Logloss(options_);
  const std::string text = test::ReadFile(folder_ / "text");
  const size_t tab = text.find('\t', text.find("\n0\t") + 3);
  ASSERT_NE(tab, std::string::npos);
  const size_t end = text.find('\n', tab);
  for (const std::string factors : {"1 2 3", "1 2 3 4 5", "1 2 x 4", ""}) {
    SCOPED_TRACE(factors);
    std::string changed = text;
    changed.replace(tab + 1, end - tab - 1, factors);
    test::WriteFile(folder_ / "changed", changed);
    const auto model = LoadModel(folder_ / "changed");
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), Code::kCorrupt);
    EXPECT_NE(model.status().message().find("4 factors"), std::string::npos)
        << model.status().message();
  }
}

}  // namespace
}  // namespace millrace::trainer
