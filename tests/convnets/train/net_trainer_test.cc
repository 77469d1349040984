// SPDX-License-Identifier: Apache-2.0
#include "convnets/train/net_trainer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/test_files.h"

namespace millrace::convnets {
namespace {

using test::TemporaryFolder;
using trainer::MetricsRow;
using trainer::TrainSummary;

NetTrainOptions SoftmaxOptions() {
  NetTrainOptions options;
  options.net.name = "softmax";
  options.update.rule = sparse::DenseRule::kMomentum;
  options.batch_size = 20;
  options.epochs = 3;
  return options;
}

std::unique_ptr<ImageSet> Digits(size_t size, bool test) {
  ImageOptions options;
  options.shape = {1, 28, 28};
  return SyntheticImages(options, size, 5, test);
}

struct Ran {
  TrainSummary summary;
  std::vector<MetricsRow> rows;
  std::string model;  // the bytes
  Status status;
};

// `stop_after`: steps after which the run is asked to stop; 0: never.
Ran Train(const NetTrainOptions& options, const std::string& model, uint64_t stop_after = 0,
          NetBackend* backend = nullptr) {
  Ran ran;
  const auto train = Digits(610, false), test = Digits(100, true);
  uint64_t steps = 0;
  double clock = 0;
  trainer::TrainObserver observer;
  observer.on_evaluation = [&](const MetricsRow& row) {
    ran.rows.push_back(row);
    return Status();
  };
  observer.should_stop = [&] { return ++steps == stop_after; };
  observer.now_s = [&] { return clock += 0.001; };
  auto trainer = NetTrainer::Create(options, *train, test.get(), observer, backend);
  ran.status = trainer.status();
  if (!trainer.ok()) return ran;
  const auto summary = (*trainer)->Run();
  ran.status = summary.status();
  if (!summary.ok()) return ran;
  ran.summary = *summary;
  if (summary->end == TrainSummary::End::kDone && !model.empty()) {
    EXPECT_TRUE((*trainer)->SaveModel(model, {}, io::AtPath::kReplace).ok());
    ran.model = test::ReadFile(model);
  }
  return ran;
}

TEST(NetTrainer, TrainsAndEvaluatesAfterEachEpoch) {
  const TemporaryFolder folder;
  const Ran ran = Train(SoftmaxOptions(), folder / "m");
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  ASSERT_EQ(ran.rows.size(), 3u);
  EXPECT_EQ(ran.rows[0].examples, 610u);
  EXPECT_EQ(ran.summary.steps, 93u);
  EXPECT_GT(ran.rows.back().test[0].value, 0.9) << "accuracy on images it has not seen";
  EXPECT_LT(ran.rows.back().loss, ran.rows.front().loss / 2);
}

TEST(NetTrainer, LeNetTrainsWithEveryOptimizer) {
  for (const sparse::DenseRule rule :
       {sparse::DenseRule::kSgd, sparse::DenseRule::kMomentum, sparse::DenseRule::kAdam}) {
    NetTrainOptions options = SoftmaxOptions();
    options.net.name = "lenet";
    options.update.rule = rule;
    options.threads = 2;
    const Ran ran = Train(options, "");
    ASSERT_TRUE(ran.status.ok()) << ran.status.message();
    EXPECT_GT(ran.rows.back().test[0].value, 0.9) << sparse::DenseRuleName(rule);
  }
}

TEST(NetTrainer, SameSeedAndThreadsGiveTheSameBits) {
  const TemporaryFolder folder;
  NetTrainOptions options = SoftmaxOptions();
  options.net.name = "lenet";
  options.threads = 2;
  options.max_examples = 300;
  const Ran a = Train(options, folder / "a"), b = Train(options, folder / "b");
  ASSERT_FALSE(a.model.empty());
  EXPECT_TRUE(a.model == b.model);
  options.seed = 2;
  EXPECT_TRUE(Train(options, folder / "c").model != a.model);
}

TEST(NetTrainer, ResumedRunGivesTheSameModel) {
  for (const sparse::DenseRule rule :
       {sparse::DenseRule::kSgd, sparse::DenseRule::kMomentum, sparse::DenseRule::kAdam}) {
    const TemporaryFolder folder;
    NetTrainOptions options = SoftmaxOptions();
    options.update.rule = rule;
    options.update.fall_steps = 93;
    options.eval_every = 250;
    const Ran whole = Train(options, folder / "whole");
    options.checkpoints = folder / "checkpoints";
    const Ran first = Train(options, "", 37);
    ASSERT_EQ(first.summary.end, TrainSummary::End::kStopped);
    options.resume = true;
    const Ran second = Train(options, folder / "resumed");
    ASSERT_TRUE(second.status.ok()) << second.status.message();
    EXPECT_TRUE(second.model == whole.model);
    ASSERT_EQ(first.rows.size() + second.rows.size(), whole.rows.size());
    EXPECT_EQ(second.rows.back().loss, whole.rows.back().loss);
    EXPECT_EQ(second.rows[0].test[2].value, whole.rows[first.rows.size()].test[2].value);
  }
}

TEST(NetTrainer, CorruptCheckpointGivesWayToTheOneBefore) {
  const TemporaryFolder folder;
  NetTrainOptions options = SoftmaxOptions();
  const Ran whole = Train(options, folder / "whole");
  options.checkpoints = folder / "checkpoints";
  options.checkpoint_every = 200;
  Train(options, "", 45);
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(options.checkpoints)) {
    files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_EQ(files.size(), 2u);
  std::string bytes = test::ReadFile(files[1]);
  bytes[bytes.size() / 2] ^= 1;
  test::WriteFile(files[1], bytes);
  options.resume = true;
  EXPECT_TRUE(Train(options, folder / "resumed").model == whole.model);
}

TEST(NetTrainer, AnotherRunsCheckpointIsRefused) {
  const TemporaryFolder folder;
  NetTrainOptions options = SoftmaxOptions();
  options.checkpoints = folder / "checkpoints";
  Train(options, "", 10);
  options.resume = true;
  options.batch_size = 30;
  const std::string message = Train(options, "").status.message();
  EXPECT_NE(message.find("batch_size: this run has 30, the file 20"), std::string::npos) << message;
}

TEST(NetTrainer, SavedModelIsTheStartOfAnotherRun) {
  const TemporaryFolder folder;
  NetTrainOptions options = SoftmaxOptions();
  const Ran first = Train(options, folder / "m");
  options.model_in = folder / "m";
  options.epochs = 1;
  const Ran second = Train(options, "");
  ASSERT_TRUE(second.status.ok()) << second.status.message();
  EXPECT_LT(second.rows[0].loss, first.rows[0].loss / 2);
  options.net.name = "lenet";
  EXPECT_FALSE(Train(options, "").status.ok());
}

// Applies gradients when their parameters are pulled, as servers may.
class DeferredStore final : public sparse::DenseStore {
 public:
  explicit DeferredStore(const sparse::DenseOptions& options) : local_(options) {}

  Status Init(std::span<const sparse::DenseParam> params) override {
    gradients_.resize(params.size());
    return local_.Init(params);
  }
  Status Push(size_t param, std::span<const float> gradient) override {
    EXPECT_TRUE(gradients_[param].empty()) << "pushed twice in a step";
    gradients_[param].assign(gradient.begin(), gradient.end());
    return {};
  }
  Status Pull(size_t param) override {
    RETURN_IF_ERROR(local_.Push(param, gradients_[param]));
    gradients_[param].clear();
    return {};
  }

 private:
  sparse::LocalDenseStore local_;
  std::vector<std::vector<float>> gradients_;
};

// A job of one worker.
class LoneBackend final : public NetBackend {
 public:
  explicit LoneBackend(const sparse::DenseOptions& options) : store_(options) {}

  Result<trainer::TrainingStart> Start(const NetStart& start) override {
    RETURN_IF_ERROR(store_.Init(start.params));
    return trainer::TrainingStart();
  }
  sparse::DenseStore& store() override { return store_; }
  void Describe(uint32_t images, double loss, const trainer::ResumePoint& after) override {
    if (after.batches == totals_.steps) return;  // before the step
    ++totals_.steps;
    totals_.examples += images;
    totals_.weight += images;
    totals_.loss += loss;
  }
  bool remote() const override { return true; }
  void Count(const trainer::StepResult&, trainer::TrainingState& state) const override {
    trainer::CountJob(totals_, state);
  }
  Status Finish() override {
    finished = true;
    return {};
  }
  Status Checkpoint(const trainer::TrainingState&) override { return {}; }

  bool finished = false;

 private:
  DeferredStore store_;
  trainer::JobTotals totals_;
};

TEST(NetTrainer, JobOfOneWorkerEqualsALocalRun) {
  const TemporaryFolder folder;
  NetTrainOptions options = SoftmaxOptions();
  const Ran local = Train(options, folder / "local");
  LoneBackend backend(options.update);
  const Ran ran = Train(options, folder / "job", 0, &backend);
  EXPECT_TRUE(ran.model == local.model);
  EXPECT_TRUE(backend.finished);
  ASSERT_EQ(ran.rows.size(), local.rows.size());
  EXPECT_NEAR(ran.rows.back().loss, local.rows.back().loss, 1e-12);
  EXPECT_EQ(ran.rows.back().examples, local.rows.back().examples);
}

TEST(NetTrainer, DivergenceIsAnError) {
  NetTrainOptions options = SoftmaxOptions();
  options.update = {.rule = sparse::DenseRule::kSgd, .rate = 1e6, .weight_decay = 10};
  EXPECT_NE(Train(options, "").status.message().find("diverged"), std::string::npos);
}

TEST(NetTrainOptions, KnowsItsBatchesBeforehand) {
  NetTrainOptions options = SoftmaxOptions();
  EXPECT_EQ(options.Batches(610), 93u);
  for (const uint64_t most : {1, 20, 21, 610, 611, 1219, 1220, 5000}) {
    options.max_examples = most;
    EXPECT_EQ(options.Batches(610), Train(options, "").summary.steps) << most;
  }
  options.workers = 3;
  options.max_examples = 0;
  EXPECT_EQ(options.Batches(610), 33u) << "each worker has 203 images an epoch";
  options.max_examples = 122;
  options.worker = 2;
  EXPECT_EQ(options.Batches(610), 2u) << "its part is 40 images";
  options.worker = 1;
  EXPECT_EQ(options.Batches(610), 3u) << "its part is 41 images";
}

TEST(NetTrainer, ContradictionsAreRefused) {
  NetTrainOptions options = SoftmaxOptions();
  options.resume = true;
  EXPECT_FALSE(options.Validate().ok());
  options = SoftmaxOptions();
  options.batch_size = 0;
  EXPECT_FALSE(options.Validate().ok());
  options = SoftmaxOptions();
  options.epochs = 0;
  EXPECT_FALSE(options.Validate().ok());
}

}  // namespace
}  // namespace millrace::convnets
