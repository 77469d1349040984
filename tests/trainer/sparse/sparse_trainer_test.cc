// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/sparse_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/support/made_rows.h"
#include "tests/support/test_files.h"
#include "trainer/model/model_file.h"

namespace millrace::trainer {
namespace {

using test::kFeatures;
using test::WriteRows;

class SparseTrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int f = 0; f < 3; ++f) {
      options_.train.files.push_back(folder_ / ("train-" + std::to_string(f)));
      WriteRows(options_.train.files.back(), static_cast<uint64_t>(f), 4000);
    }
    options_.test.files = {folder_ / "test"};
    WriteRows(options_.test.files[0], 77, 3000);
    options_.train.rows.num_features = options_.test.rows.num_features = kFeatures;
    options_.train.batch_size = 50;
    options_.train.shuffle_capacity = 500;
    options_.train.min_after_dequeue = 100;
    options_.test.shuffle_capacity = 0;
    options_.shape.num_features = kFeatures;
  }

  TrainObserver Observer() {
    TrainObserver observer;
    observer.now_s = [this] { return clock_ += 1e-4; };
    observer.on_evaluation = [this](const MetricsRow& row) {
      rows_.push_back(row);
      return Status();
    };
    return observer;
  }

  // Trains and returns the bytes of the model.
  std::string Train(const TrainOptions& options, TrainSummary* summary = nullptr) {
    rows_.clear();
    auto trainer = SparseTrainer::Create(options, Observer());
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    if (!trainer.ok()) return "";
    const auto result = (*trainer)->Run();
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (result.ok() && summary) *summary = *result;
    EXPECT_TRUE((*trainer)->SaveModel(folder_ / "model", ModelFormat::kBinary).ok());
    return test::ReadFile(folder_ / "model");
  }

  Status Failure(const TrainOptions& options) {
    auto trainer = SparseTrainer::Create(options, Observer());
    return trainer.ok() ? (*trainer)->Run().status() : trainer.status();
  }

  test::TemporaryFolder folder_;
  TrainOptions options_;
  std::vector<MetricsRow> rows_;
  double clock_ = 0;
};

TEST_F(SparseTrainerTest, EveryRuleLearns) {
  for (const sparse::Rule rule : sparse::kRules) {
    SCOPED_TRACE(sparse::RuleName(rule));
    options_.update.rule = rule;
    options_.train.epochs = 6;  // the slow rules need them
    TrainSummary summary;
    Train(options_, &summary);
    EXPECT_EQ(summary.examples, 72000u);
    EXPECT_EQ(summary.steps, 1440u);
    ASSERT_TRUE(summary.last_row.has_value());
    EXPECT_LT(summary.last_row->Metric("ne"), 0.95);
    EXPECT_GT(summary.last_row->Metric("auc"), 0.65);
    EXPECT_NEAR(summary.last_row->Metric("calibration"), 1, 0.15);
  }
}

TEST_F(SparseTrainerTest, OneSeedGivesTheSameModelWithAnyNumberOfThreads) {
  for (const sparse::Rule rule : sparse::kRules) {
    SCOPED_TRACE(sparse::RuleName(rule));
    options_.update.rule = rule;
    options_.train.threads = 1;
    const std::string model = Train(options_);
    options_.train.threads = 4;
    EXPECT_EQ(Train(options_), model);
    options_.train.seed = 2;
    EXPECT_NE(Train(options_), model);
    options_.train.seed = 1;
  }
}

TEST_F(SparseTrainerTest, HogwildLearnsNearlyTheSame) {
  options_.update.rule = sparse::Rule::kSgd;
  options_.eval_every = 5000;
  options_.train.epochs = 3;
  TrainSummary summary;
  Train(options_, &summary);
  const auto expected = rows_;
  options_.hogwild = 3;
  Train(options_, &summary);
  EXPECT_EQ(summary.examples, 36000u);
  EXPECT_EQ(summary.steps, 720u);
  ASSERT_EQ(rows_.size(), expected.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    EXPECT_EQ(rows_[i].examples, expected[i].examples);
    EXPECT_NEAR(rows_[i].Metric("logloss"), expected[i].Metric("logloss"), 0.01);
  }
}

TEST_F(SparseTrainerTest, HogwildRequiresPlainSgd) {
  options_.hogwild = 2;
  options_.update.rule = sparse::Rule::kFtrl;
  EXPECT_FALSE(options_.Validate().ok());
  options_.update = {.rule = sparse::Rule::kSgd, .l2 = 1};
  EXPECT_FALSE(options_.Validate().ok());
  options_.update.l2 = 0;
  EXPECT_TRUE(options_.Validate().ok());
  options_.shape.num_features = 0;
  EXPECT_FALSE(options_.Validate().ok());
}

TEST_F(SparseTrainerTest, EveryKernelLearnsTheSame) {
  options_.update.rule = sparse::Rule::kAdaGrad;
  Train(options_);
  const double expected = rows_.back().Metric("logloss");
  for (const std::string kernel : {"native", "mkl", "plain"}) {
    if (!sparse::KernelsByName(kernel).ok()) continue;
    options_.kernel = kernel;
    Train(options_);
    EXPECT_NEAR(rows_.back().Metric("logloss"), expected, 1e-5) << kernel;
  }
}

TEST_F(SparseTrainerTest, HashedKeyAndDenseIndexTablesTrainTheSame) {
  options_.update.rule = sparse::Rule::kFtrl;
  Train(options_);
  const MetricsRow indexed = rows_.back();
  options_.shape.num_features = 0;
  options_.train.rows.num_features = options_.test.rows.num_features = 0;
  Train(options_);
  // They sum margins in another order.
  EXPECT_NEAR(rows_.back().Metric("logloss"), indexed.Metric("logloss"), 1e-6);
}

TEST_F(SparseTrainerTest, EvaluationsComeOnScheduleAndAtTheEnd) {
  options_.eval_every = 5000;
  Train(options_);
  ASSERT_EQ(rows_.size(), 3u);
  EXPECT_EQ(rows_[0].examples, 5000u);
  EXPECT_EQ(rows_[1].examples, 10000u);
  EXPECT_EQ(rows_[2].examples, 12000u);
  EXPECT_GT(rows_[0].loss, 0);
}

TEST_F(SparseTrainerTest, TestDataThatIsNotKeptInMemoryGivesTheSame) {
  options_.eval_every = 3000;
  Train(options_);
  const auto kept = rows_;
  options_.test_cache_bytes = 1000;
  Train(options_);
  ASSERT_EQ(rows_.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_EQ(rows_[i].Metric("logloss"), kept[i].Metric("logloss"));
}

TEST_F(SparseTrainerTest, MaxExamplesEndsTheRun) {
  options_.max_examples = 3000;
  TrainSummary summary;
  Train(options_, &summary);
  EXPECT_EQ(summary.examples, 3000u);
}

// Stopped after every possible number of batches (in steps of a prime), resumed with another number
// of threads: the same model and the same rows as the run that was never stopped.
TEST_F(SparseTrainerTest, ResumedRunEqualsAnUninterruptedOneBitForBit) {
  for (const sparse::Rule rule : sparse::kRules) {
    SCOPED_TRACE(sparse::RuleName(rule));
    options_.update.rule = rule;
    options_.train.epochs = 2;
    options_.eval_every = 7000;
    options_.checkpoints = folder_ / (std::string("checkpoints-") + sparse::RuleName(rule));
    const std::string expected = Train(options_);
    const auto expected_rows = rows_;
    int stops = 0;
    std::vector<MetricsRow> all_rows;
    std::string model;
    while (true) {
      TrainOptions options = options_;
      options.resume = true;
      options.train.threads = 1 + static_cast<size_t>(stops) % 3;
      TrainObserver observer = Observer();
      int batches = 0;
      observer.should_stop = [&] { return ++batches == 97; };
      rows_.clear();
      auto trainer = SparseTrainer::Create(options, observer);
      ASSERT_TRUE(trainer.ok()) << trainer.status().message();
      const auto summary = (*trainer)->Run();
      ASSERT_TRUE(summary.ok()) << summary.status().message();
      all_rows.insert(all_rows.end(), rows_.begin(), rows_.end());
      if (summary->end != TrainSummary::End::kStopped) {
        ASSERT_TRUE((*trainer)->SaveModel(folder_ / "model", ModelFormat::kBinary).ok());
        break;
      }
      ++stops;
    }
    EXPECT_EQ(stops, 4);
    EXPECT_EQ(test::ReadFile(folder_ / "model"), expected);
    ASSERT_EQ(all_rows.size(), expected_rows.size());
    for (size_t i = 0; i < all_rows.size(); ++i) {
      EXPECT_EQ(all_rows[i].step, expected_rows[i].step);
      EXPECT_EQ(all_rows[i].loss, expected_rows[i].loss);
      EXPECT_EQ(all_rows[i].Metric("logloss"), expected_rows[i].Metric("logloss"));
    }
  }
}

TEST_F(SparseTrainerTest, ResumeWithAnotherOrderOrOtherDataIsRefused) {
  options_.checkpoints = folder_ / "checkpoints";
  options_.checkpoint_every = 5000;
  Train(options_);
  options_.resume = true;
  options_.train.seed = 9;
  EXPECT_NE(Failure(options_).message().find("this run has seed=9, the checkpoint seed=1"),
            std::string::npos)
      << Failure(options_).message();
  options_.train.seed = 1;
  WriteRows(options_.train.files[1], 5, 100);
  EXPECT_NE(Failure(options_).message().find("training files"), std::string::npos)
      << Failure(options_).message();
}

TEST_F(SparseTrainerTest, WarmStartGoesOnFromTheModel) {
  options_.update.rule = sparse::Rule::kSgd;
  Train(options_);
  const double first_loss = rows_.back().Metric("logloss");
  options_.model_in = folder_ / "model";
  options_.max_examples = 50;
  Train(options_);
  EXPECT_NEAR(rows_.back().Metric("logloss"), first_loss, 0.02);
}

TEST_F(SparseTrainerTest, EarlyStopEndsARunThatGetsNoBetter) {
  options_.update.rule = sparse::Rule::kAdaGrad;
  options_.update.rate = 2;  // overfits
  options_.train.epochs = 50;
  options_.eval_every = 3000;
  options_.early_stop = *ParseEarlyStop("logloss:2");
  TrainSummary summary;
  Train(options_, &summary);
  EXPECT_EQ(summary.end, TrainSummary::End::kEarlyStop);
  EXPECT_LT(summary.examples, 600000u);
}

TEST_F(SparseTrainerTest, RunThatWasKilledAfterItsLastEvaluationStopsEarlyToo) {
  options_.update.rule = sparse::Rule::kAdaGrad;
  options_.update.rate = 2;  // overfits
  options_.train.epochs = 50;
  options_.eval_every = options_.checkpoint_every = 3000;
  options_.checkpoints = folder_ / "checkpoints";
  options_.early_stop = *ParseEarlyStop("logloss:2");
  const std::string expected = Train(options_);
  options_.resume = true;  // from the checkpoint after the evaluation that ended the run
  TrainSummary summary;
  EXPECT_TRUE(Train(options_, &summary) == expected);
  EXPECT_EQ(summary.end, TrainSummary::End::kEarlyStop);
  EXPECT_EQ(summary.new_examples, 0u);
}

TEST_F(SparseTrainerTest, ResumeWithoutACheckpointStartsFromTheModelThatIsGiven) {
  Train(options_);
  std::filesystem::copy_file(folder_ / "model", folder_ / "first");
  options_.model_in = folder_ / "first";
  options_.checkpoints = folder_ / "checkpoints";
  const std::string expected = Train(options_);
  options_.resume = true;
  EXPECT_TRUE(Train(options_) == expected);
}

TEST_F(SparseTrainerTest, DivergenceIsAnErrorThatNamesTheStepAndARate) {
  options_.update = {.rule = sparse::Rule::kSgd, .rate = 1e6};
  // Values large enough to overflow a float within a few steps.
  auto writer = io::RecordWriter::Create(folder_ / "huge");
  ASSERT_TRUE(writer.ok());
  std::string record;
  for (int r = 0; r < 500; ++r) {
    const std::vector<uint64_t> keys = {0, 1};
    const std::vector<float> values = {1e30f, -1e30f};
    io::EncodeSparseExample({}, r % 2, keys, values, record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  options_.train.files = {folder_ / "huge"};
  const Status status = Failure(options_);
  EXPECT_NE(status.message().find("loss of step "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("learning_rate, such as 100000 (it was 1e+06)"),
            std::string::npos)
      << status.message();
}

// Hours of training must not be lost to a bad byte of the test data.
TEST_F(SparseTrainerTest, BadTestDataLeavesACheckpointThatResumesExactly) {
  const std::string expected = Train(options_);
  const std::string bad = options_.test.files[0], whole = test::ReadFile(bad);
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  for (const uint64_t eval_every : {0, 5000}) {
    SCOPED_TRACE(eval_every);
    TrainOptions options = options_;
    options.eval_every = eval_every;
    options.checkpoints = folder_ / ("checkpoints-" + std::to_string(eval_every));
    test::WriteFile(bad, damaged);
    const std::string message = Failure(options).message();
    EXPECT_NE(message.find(bad + ": offset "), std::string::npos) << message;
    EXPECT_NE(message.find("keeps the training so far"), std::string::npos) << message;
    test::WriteFile(bad, whole);
    options.resume = true;
    EXPECT_TRUE(Train(options) == expected);
  }
}

TEST_F(SparseTrainerTest, DataThatIsAllSkippedSaysWhy) {
  options_.train.on_corrupt = io::OnCorrupt::kSkip;
  options_.train.rows.num_features = 1;
  const std::string message = Failure(options_).message();
  EXPECT_NE(message.find("all were skipped"), std::string::npos) << message;
  EXPECT_NE(message.find("below num_features = 1"), std::string::npos) << message;
}

TEST_F(SparseTrainerTest, EmptyDataIsAnError) {
  test::WriteFile(folder_ / "empty", "");
  TrainOptions no_train = options_, no_test = options_;
  no_train.train.files = {folder_ / "empty"};
  EXPECT_EQ(Failure(no_train).message(),
            "the training data has no examples: " + (folder_ / "empty"));
  no_test.test.files = {folder_ / "empty"};
  EXPECT_EQ(Failure(no_test).message(), "the test data has no examples: " + (folder_ / "empty"));
}

TEST_F(SparseTrainerTest, ContradictionsAreRefusedBeforeAnyWork) {
  TrainOptions options = options_;
  options.test.files.clear();
  options.eval_every = 10;
  EXPECT_FALSE(options.Validate().ok());
  options = options_;
  options.checkpoint_every = 10;
  EXPECT_FALSE(options.Validate().ok());
  options = options_;
  options.kernel = "fast";
  EXPECT_FALSE(options.Validate().ok());
  options = options_;
  options.resume = true;
  EXPECT_FALSE(options.Validate().ok());
}

// Reference (L2 logistic regression, C = 1): accuracy 0.8498, AUC 0.9022, logloss 0.3241.
TEST(SparseTrainerShared, A9aComesNearTheReference) {
  SKIP_WITHOUT_SHARED_DATA();
  TrainOptions options;
  options.train.files = {MILLRACE_SHARED_DATA "/libsvm/a9a"};
  options.test.files = {MILLRACE_SHARED_DATA "/libsvm/a9a.t"};
  options.train.format = options.test.format = io::InputFormat::kLibsvm;
  options.train.rows.num_features = options.test.rows.num_features = options.shape.num_features =
      124;
  options.train.epochs = 5;
  options.test.shuffle_capacity = 0;
  for (const sparse::Rule rule : {sparse::Rule::kFtrl, sparse::Rule::kAdaGrad}) {
    options.update.rule = rule;
    auto trainer = SparseTrainer::Create(options, {.now_s = [] { return 0.0; }});
    ASSERT_TRUE(trainer.ok());
    const auto summary = (*trainer)->Run();
    ASSERT_TRUE(summary.ok()) << summary.status().message();
    EXPECT_LE(summary->last_row->Metric("logloss"), 0.326) << sparse::RuleName(rule);
    EXPECT_GE(summary->last_row->Metric("auc"), 0.901) << sparse::RuleName(rule);
  }
}

}  // namespace
}  // namespace millrace::trainer
