// SPDX-License-Identifier: Apache-2.0
#include "trainer/sweep/sweep_trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/made_rows.h"
#include "tests/support/test_files.h"
#include "trainer/sparse/sparse_trainer.h"
#include "trainer/sweep/sweep_table.h"

namespace millrace::trainer {
namespace {

using test::kFeatures;
using test::WriteRows;

// The cells that do not depend on time.
std::string TextOf(MetricsRow row) {
  row.seconds = row.examples_per_s = 0;
  return CsvLine(row);
}

class SweepTrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.train.files = {folder_ / "train"};
    WriteRows(options_.train.files[0], 1, 4000);
    options_.test.files = {folder_ / "test"};
    WriteRows(options_.test.files[0], 77, 1500);
    options_.train.rows.num_features = options_.test.rows.num_features = kFeatures;
    options_.train.batch_size = 50;
    options_.train.shuffle_capacity = 500;
    options_.train.min_after_dequeue = 100;
    options_.test.shuffle_capacity = 0;
    options_.shape.num_features = kFeatures;
    options_.eval_every = 1500;
  }

  void Use(const std::string& sweep) {
    auto configs = ParseSweep(sweep, options_.update, 1);
    ASSERT_TRUE(configs.ok()) << configs.status().message();
    configs_ = *configs;
    sweep_options_.models.clear();
    for (const SweepConfig& config : configs_) {
      sweep_options_.models.push_back(options_);
      sweep_options_.models.back().update = config.update;
    }
  }

  std::unique_ptr<SweepTrainer> Sweep(TrainSummary* summary = nullptr) {
    rows_.assign(configs_.size(), "");
    SweepObserver observer;
    observer.now_s = [this] { return clock_ += 1e-4; };
    observer.on_row = [this](size_t model, const MetricsRow& row) {
      rows_[model] += TextOf(row);
      return Status();
    };
    auto sweep = SweepTrainer::Create(sweep_options_, observer);
    EXPECT_TRUE(sweep.ok()) << sweep.status().message();
    if (!sweep.ok()) return nullptr;
    const auto result = (*sweep)->Run();
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (result.ok() && summary) *summary = *result;
    return std::move(*sweep);
  }

  std::string ModelOf(SweepTrainer& sweep, size_t model) {
    EXPECT_TRUE(sweep.SaveModel(model, folder_ / "swept", ModelFormat::kBinary).ok());
    return test::ReadFile(folder_ / "swept");
  }

  struct Alone {
    std::string rows, model;
  };
  Alone TrainAlone(const TrainOptions& options) {
    Alone alone;
    TrainObserver observer;
    observer.now_s = [this] { return clock_ += 1e-4; };
    observer.on_evaluation = [&](const MetricsRow& row) {
      alone.rows += TextOf(row);
      return Status();
    };
    auto trainer = SparseTrainer::Create(options, observer);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    const auto result = (*trainer)->Run();
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_TRUE((*trainer)->SaveModel(folder_ / "alone", ModelFormat::kBinary).ok());
    alone.model = test::ReadFile(folder_ / "alone");
    return alone;
  }

  void ExpectSameAsAlone(const std::string& sweep_text, bool shares) {
    SCOPED_TRACE(sweep_text);
    Use(sweep_text);
    const auto sweep = Sweep();
    ASSERT_TRUE(sweep);
    EXPECT_EQ(sweep->shares_slots(), shares);
    for (size_t m = 0; m < configs_.size(); ++m) {
      SCOPED_TRACE(m);
      const Alone alone = TrainAlone(sweep_options_.models[m]);
      EXPECT_EQ(rows_[m], alone.rows);
      EXPECT_EQ(ModelOf(*sweep, m), alone.model);
    }
  }

  test::TemporaryFolder folder_;
  TrainOptions options_;
  SweepOptions sweep_options_;
  std::vector<SweepConfig> configs_;
  std::vector<std::string> rows_;
  double clock_ = 0;
};

TEST_F(SweepTrainerTest, EachModelAndItsMetricsAreThoseOfItsOwnRun) {
  ExpectSameAsAlone("learning_rate=0.05,0.1,0.4;l1=0,0.5,1", true);  // two tables
  ExpectSameAsAlone("l2=0,1;ftrl_beta=0.5,1", true);
  options_.intercept = -0.7;
  options_.train.epochs = 2;
  ExpectSameAsAlone("l1=0,1", true);
  options_.shape.intercept = false;
  ExpectSameAsAlone("l1=0,1", true);
}

TEST_F(SweepTrainerTest, OtherModelsHaveStoresOfTheirOwn) {
  options_.update.normalize = true;
  ExpectSameAsAlone("l1=0,1", false);
  options_.update.normalize = false;
  options_.update.rule = sparse::Rule::kAdaGrad;
  ExpectSameAsAlone("learning_rate=0.05,0.1;adagrad_initial=0,1", false);
  options_.update.rule = sparse::Rule::kSgd;
  ExpectSameAsAlone("learning_rate=0.5,1", false);
  options_.update.rule = sparse::Rule::kFtrl;
  options_.shape.num_features = options_.train.rows.num_features = options_.test.rows.num_features =
      0;
  ExpectSameAsAlone("l1=0,1", false);
}

TEST_F(SweepTrainerTest, SlotsOfTheirOwnGiveTheSame) {
  Use("learning_rate=0.05,0.2;l1=0,1");
  const auto shared = Sweep();
  const auto rows = rows_;
  sweep_options_.shares_slots = false;
  const auto apart = Sweep();
  ASSERT_TRUE(shared && apart);
  EXPECT_FALSE(apart->shares_slots());
  EXPECT_EQ(rows, rows_);
  for (size_t m = 0; m < configs_.size(); ++m) {
    EXPECT_EQ(ModelOf(*shared, m), ModelOf(*apart, m));
  }
}

TEST_F(SweepTrainerTest, AModelThatStopsEarlyIsThatOfItsOwnRun) {
  options_.eval_every = 500;
  options_.train.epochs = 5;
  options_.early_stop = *ParseEarlyStop("logloss:1");
  ExpectSameAsAlone("learning_rate=0.02,0.1,3,30", true);
  const auto sweep = Sweep();
  size_t early = 0;
  for (const SweptModel& model : sweep->models()) early += model.end == SweepEnd::kEarlyStop;
  EXPECT_GE(early, 1u);  // those with large rates
  const auto result = sweep->Compare();
  ASSERT_TRUE(result.ok());
  for (const SweepComparison& own : result->models) EXPECT_TRUE(std::isfinite(own.logloss.low));
}

TEST_F(SweepTrainerTest, TheStateIsThatOfARunOfItsOwn) {
  Use("l1=0,1");
  TrainOptions alone = sweep_options_.models[1];
  alone.checkpoints = folder_ / "alone-state";
  const auto sweep = Sweep();
  ASSERT_TRUE(sweep->SaveState(1, folder_ / "state").ok());
  // Both runs continue.
  const auto go_on = [&](const std::string& checkpoints) {
    TrainOptions next = sweep_options_.models[1];
    next.checkpoints = checkpoints;
    next.resume = true;
    next.train.epochs = 3;
    return TrainAlone(next).model;
  };
  const auto trainer = SparseTrainer::Create(alone, {.now_s = [this] { return clock_ += 1e-4; }});
  ASSERT_TRUE(trainer.ok());
  ASSERT_TRUE((*trainer)->Run().ok());
  ASSERT_TRUE((*trainer)->SaveState().ok());
  EXPECT_EQ(go_on(folder_ / "state"), go_on(folder_ / "alone-state"));
}

TEST_F(SweepTrainerTest, HalvingDropsTheWorstByProgressiveLoss) {
  Use("learning_rate=0.0001,0.001,0.1,0.2");
  sweep_options_.halving = 1000;
  const auto sweep = Sweep();
  const auto& models = sweep->models();
  EXPECT_EQ(models[0].end, SweepEnd::kDropped);
  EXPECT_EQ(models[1].end, SweepEnd::kDropped);
  EXPECT_EQ(models[0].state.examples, 1000u);
  const bool third = models[2].end == SweepEnd::kDone, fourth = models[3].end == SweepEnd::kDone;
  EXPECT_NE(third, fourth);
  const size_t left = third ? 2 : 3;
  EXPECT_EQ(ModelOf(*sweep, left), TrainAlone(sweep_options_.models[left]).model);
  EXPECT_EQ(sweep->Compare()->best, left);
  const std::string csv = SweepCsv(configs_, models, *sweep->Compare());
  EXPECT_NE(csv.find("\n1,0.0001,dropped,20,1000,"), std::string::npos) << csv;
}

TEST_F(SweepTrainerTest, ADivergedModelLeavesTheSweep) {
  options_.update.rule = sparse::Rule::kSgd;
  options_.eval_every = 0;
  options_.update.l2 = 1;  // makes a large rate diverge
  Use("learning_rate=0.1,0.2,1000000");
  const auto sweep = Sweep();
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->models()[2].end, SweepEnd::kDiverged);
  EXPECT_EQ(ModelOf(*sweep, 0), TrainAlone(sweep_options_.models[0]).model);
  const auto result = sweep->Compare();
  ASSERT_TRUE(result.ok());
  EXPECT_LT(result->best, 2u);
  EXPECT_EQ(result->models[2].result, SweepResultOf::kUnknown);
}

TEST_F(SweepTrainerTest, AModelTiesWithItselfAndNotWithAWorseOne) {
  options_.eval_every = 0;
  Use("learning_rate=0.1,0.2;l1=0,1000");
  // The same model twice: no difference.
  sweep_options_.models[2] = sweep_options_.models[0];
  const auto sweep = Sweep();
  const auto result = sweep->Compare();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->best, 0u);
  EXPECT_EQ(result->models[2].result, SweepResultOf::kTie);
  EXPECT_EQ(result->models[2].logloss.difference, 0);
  EXPECT_EQ(result->models[1].result, SweepResultOf::kWorse);
  EXPECT_EQ(result->models[3].result, SweepResultOf::kWorse);
  const double difference = sweep->models()[1].rows.back().Metric("logloss") -
                            sweep->models()[0].rows.back().Metric("logloss");
  EXPECT_NEAR(result->models[1].logloss.difference, difference, 1e-9);
  const double auc_difference =
      sweep->models()[1].rows.back().Metric("auc") - sweep->models()[0].rows.back().Metric("auc");
  EXPECT_NEAR(result->models[1].auc.difference, auc_difference, 1e-9);
  EXPECT_LT(result->models[1].auc.low, result->models[1].auc.high);
}

TEST_F(SweepTrainerTest, WithoutTestDataTheProgressiveLossDecides) {
  options_.test.files.clear();
  options_.eval_every = 0;
  Use("learning_rate=0.0001,0.1");
  const auto sweep = Sweep();
  const auto result = sweep->Compare();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->best, 1u);
  EXPECT_EQ(result->models[0].result, SweepResultOf::kUnknown);
}

TEST_F(SweepTrainerTest, OptionsOfOneProcessAndOneThread) {
  Use("l1=0,1");
  const auto error = [this] { return SweepTrainer::Create(sweep_options_, {}).status().message(); };
  sweep_options_.models[1].checkpoint_every = 100;
  sweep_options_.models[1].checkpoints = folder_ / "checkpoints";
  EXPECT_NE(error().find("no checkpoint_every"), std::string::npos) << error();
  sweep_options_.models.resize(1);
  EXPECT_EQ(error(), "sweep: expected 2 models or more, found 1");
}

}  // namespace
}  // namespace millrace::trainer
