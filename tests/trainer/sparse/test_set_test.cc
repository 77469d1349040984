// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/test_set.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "sparse/local_store.h"
#include "tests/support/made_rows.h"
#include "tests/support/test_files.h"

namespace millrace::trainer {
namespace {

using test::kFeatures;
using test::WriteRows;

constexpr uint64_t kPlenty = 64 << 20;

class TestSetTest : public testing::Test {
 protected:
  void SetUp() override {
    input_.files = {folder_ / "test-0", folder_ / "test-1"};
    for (size_t f = 0; f < 2; ++f) WriteRows(input_.files[f], f, 700);
    input_.rows.num_features = kFeatures;
    input_.batch_size = 128;
    input_.shuffle_capacity = 0;
    input_.compact = true;
    auto kernels = sparse::KernelsByName("auto");
    ASSERT_TRUE(kernels.ok());
    kernels_ = *kernels;
    auto store = sparse::LocalStore::Create({.num_features = kFeatures}, {});
    ASSERT_TRUE(store.ok());
    store_ = std::move(*store);
    for (uint64_t key = 0; key < kFeatures; ++key) {
      ASSERT_TRUE(store_->LoadWeight(key, static_cast<float>(key % 7) - 3).ok());
    }
    learner_ = MakeStoreLearner(*store_, *kernels_, sparse::GradientScale::kMean);
  }

  static double Logloss(Evaluation evaluation) {
    const auto metrics = evaluation.get();
    EXPECT_TRUE(metrics.ok()) << metrics.status().message();
    return metrics.ok() ? MetricsRow{.test = *metrics}.Metric("logloss") : -1;
  }
  double Logloss(TestSet& set) { return Logloss(set.Evaluate(*learner_)); }

  test::TemporaryFolder folder_;
  io::InputOptions input_;
  const sparse::Kernels* kernels_ = nullptr;
  std::unique_ptr<sparse::LocalStore> store_;
  std::unique_ptr<BatchLearner> learner_;
};

TEST_F(TestSetTest, ResultsDoNotDependOnWhatIsKeptOrPreloaded) {
  TestSet plain(input_, 0);
  const double expected = Logloss(plain);
  EXPECT_GT(expected, 0);
  for (const uint64_t cache_bytes : {kPlenty, uint64_t{20000}, uint64_t{1}, uint64_t{0}}) {
    SCOPED_TRACE(cache_bytes);
    TestSet set(input_, cache_bytes);
    set.Preload();
    EXPECT_EQ(Logloss(set), expected);
    EXPECT_EQ(Logloss(set), expected);
    const auto batches = set.Batches();
    ASSERT_TRUE(batches.ok());
    EXPECT_EQ(batches->size(), cache_bytes == kPlenty ? 11u : 0u);
  }
}

TEST_F(TestSetTest, ASetThatFitsIsReadOnce) {
  TestSet kept(input_, kPlenty), not_kept(input_, 1);
  kept.Preload();
  not_kept.Preload();
  const double expected = Logloss(kept);
  EXPECT_EQ(Logloss(not_kept), expected);
  std::filesystem::remove(input_.files[1]);
  EXPECT_EQ(Logloss(kept), expected);
  EXPECT_FALSE(not_kept.Evaluate(*learner_).get().ok());
}

TEST_F(TestSetTest, EvaluationReturnsTheErrorOfThePreload) {
  test::WriteFile(input_.files[1], "no records");
  TestSet set(input_, kPlenty);
  set.Preload();
  const auto batches = set.Batches();
  ASSERT_FALSE(batches.ok());
  EXPECT_NE(batches.status().message().find(input_.files[1]), std::string::npos)
      << batches.status().message();
}

TEST_F(TestSetTest, ASetWithoutExamplesIsAnError) {
  for (const std::string& file : input_.files) WriteRows(file, 0, 0);
  TestSet set(input_, kPlenty);
  set.Preload();
  EXPECT_NE(set.Evaluate(*learner_).get().status().message().find("no examples"),
            std::string::npos);
}

TEST_F(TestSetTest, BackgroundEvaluationScoresTheWeightsAtItsStart) {
  TestSet set(input_, kPlenty);
  const double expected = Logloss(set);
  for (int again = 0; again < 2; ++again) {
    const double before = Logloss(set);
    Evaluation evaluation = set.EvaluateInBackground(*learner_, *store_, *kernels_);
    for (uint64_t key = 0; key < kFeatures; ++key) ASSERT_TRUE(store_->LoadWeight(key, 0).ok());
    EXPECT_EQ(Logloss(std::move(evaluation)), before);
  }
  EXPECT_LT(Logloss(set), expected);
}

TEST_F(TestSetTest, ASetThatDoesNotFitIsNotScoredInTheBackground) {
  TestSet set(input_, 1);
  const double expected = Logloss(set);
  Evaluation evaluation = set.EvaluateInBackground(*learner_, *store_, *kernels_);
  EXPECT_EQ(evaluation.wait_for(std::chrono::seconds(0)), std::future_status::deferred);
  EXPECT_EQ(Logloss(std::move(evaluation)), expected);
}

}  // namespace
}  // namespace millrace::trainer
