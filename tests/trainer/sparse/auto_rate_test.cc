// SPDX-License-Identifier: Apache-2.0
#include "trainer/sparse/auto_rate.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "io/base/random.h"
#include "tests/support/test_files.h"
#include "trainer/model/model_file.h"
#include "trainer/sparse/sparse_trainer.h"

namespace millrace::trainer {
namespace {

// Numbers in units from 1e-3 to 1e3 with means of up to ten deviations, or ones.
class StartTest : public testing::Test {
 protected:
  std::string WriteNumbers(const std::string& name, int rows, uint64_t seed = 1) {
    Random random(seed);
    std::string text;
    for (int r = 0; r < rows; ++r) {
      double margin = -1;
      std::string features;
      for (int f = 1; f <= 6; ++f) {
        const double z = (random.Uniform() + random.Uniform() + random.Uniform() - 1.5) * 2;
        margin += (f % 2 ? 1.0 : -0.7) * z;
        features +=
            " " + std::to_string(f) + ":" + std::to_string((z + 2 * f - 3) * std::pow(10, f - 3));
      }
      text +=
          std::to_string(random.Uniform() < 1 / (1 + std::exp(-margin)) ? 1 : 0) + features + "\n";
    }
    return Write(name, text);
  }
  std::string WriteOnes(const std::string& name, int rows) {
    Random random(9);
    std::string text;
    for (int r = 0; r < rows; ++r) {
      const uint64_t key = random.Below(50);
      text += (random.Below(60) < key ? "1 " : "0 ") + std::to_string(key) + ":1 " +
              std::to_string(100 + random.Below(50)) + ":1\n";
    }
    return Write(name, text);
  }
  std::string Write(const std::string& name, const std::string& text) {
    test::WriteFile(folder_ / name, text);
    return folder_ / name;
  }
  TrainOptions Options(const std::string& file) const {
    TrainOptions options;
    options.train.files = {file};
    options.train.format = io::InputFormat::kLibsvm;
    options.auto_batch_size = true;
    return options;
  }
  static StartChoice Choose(const TrainOptions& options) {
    auto choice = ChooseStart(options);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return *choice;
  }
  static std::string Text(const StartChoice& choice) {
    RunInfo info;
    info.start = choice;
    return RunJson(info, std::nullopt) + std::to_string(choice.intercept);
  }

  test::TemporaryFolder folder_;
};

TEST_F(StartTest, CentersOfRowsInTheOrderOfFilesAreThoseOfTheFirstFile) {
  TrainOptions one = Options(WriteNumbers("day-1", 300));
  one.train.shuffle_capacity = one.train.min_after_dequeue = 0;
  TrainOptions both = one;
  both.train.files.push_back(WriteNumbers("day-2", 3000, 2));
  const auto a = Choose(one).centers, b = Choose(both).centers;
  ASSERT_EQ(a.size(), 6u);
  ASSERT_EQ(b.size(), 6u);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].center, b[i].center) << i;
}

TEST_F(StartTest, ARunOnOnesIsContinuedWithNormalizedNumbers) {
  TrainOptions options = Options(WriteNumbers("a", 3000));
  options.update.rate = 0.2;
  const auto choice = ChooseContinuedStart(options);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_TRUE(choice->normalize);
  EXPECT_EQ(choice->centers.size(), 6u);
  EXPECT_EQ(choice->rate, 0.2);
  EXPECT_EQ(choice->batch_size, options.train.batch_size);
  options.train.files = {WriteOnes("b", 3000)};
  EXPECT_FALSE(ChooseContinuedStart(options)->normalize);
}

TEST_F(StartTest, AContinuedRunKeepsScalesAndRawValues) {
  TrainOptions options = Options(WriteNumbers("a", 3000));
  options.update.raw_values = true;
  EXPECT_FALSE(ChooseContinuedStart(options)->normalize);
  options.normalize = Normalize::kOn;
  EXPECT_EQ(ChooseContinuedStart(options).status().code(), Code::kInvalid);
  options.update.raw_values = false;
  options.update.normalize = true;
  options.update.centers = {{1, 7}};
  const auto kept = ChooseContinuedStart(options);
  ASSERT_TRUE(kept.ok());
  ASSERT_EQ(kept->centers.size(), 1u);
  EXPECT_EQ(kept->centers[0].center, 7);
  options.normalize = Normalize::kOff;
  EXPECT_EQ(ChooseContinuedStart(options).status().code(), Code::kInvalid);
}

TEST_F(StartTest, ChoiceDoesNotDependOnThreadsShardsOrEpochs) {
  TrainOptions options = Options(WriteNumbers("a", 6000));
  const std::string expected = Text(Choose(options));
  options.train.threads = 1;
  EXPECT_EQ(Text(Choose(options)), expected);
  options.train.threads = 5;
  options.train.epochs = 7;
  options.train.shard = 2;
  options.train.num_shards = 3;
  options.eval_every = 10;
  EXPECT_EQ(Text(Choose(options)), expected);
}

TEST_F(StartTest, SeveralPassesOverFewRowsAreChosenByHeldOutRows) {
  Random random(3);
  std::string text;
  for (int r = 0; r < 600; ++r) {  // labels are noise: every step away from the intercept is wrong
    text += random.Below(4) == 0 ? "1" : "0";
    for (int f = 0; f < 10; ++f)
      text += " " + std::to_string(1 + 200 * f + random.Below(200)) + ":1";
    text += "\n";
  }
  TrainOptions options = Options(Write("noise", text));
  const StartChoice one = Choose(options);
  EXPECT_EQ(one.passes, 1u);
  EXPECT_EQ(one.trials.size(), 6u);
  options.train.epochs = 10;
  const StartChoice ten = Choose(options);
  EXPECT_EQ(ten.passes, 10u);
  EXPECT_EQ(ten.rows, 600u);
  EXPECT_EQ(ten.trials.size(), 8u);
  EXPECT_LT(ten.rate, one.rate);
  options.train.threads = 5;
  EXPECT_EQ(Text(Choose(options)), Text(ten));
  options.max_examples = 1300;
  EXPECT_EQ(Choose(options).passes, 2u);
}

TEST_F(StartTest, OnesAreNeitherNormalizedNorCentered) {
  const StartChoice choice = Choose(Options(WriteOnes("a", 3000)));
  EXPECT_FALSE(choice.normalize);
  EXPECT_TRUE(choice.centers.empty());
  EXPECT_EQ(choice.trials.size(), 6u);
  EXPECT_EQ(choice.batch_size, 10u) << "300 steps";
}

TEST_F(StartTest, NumbersAreCenteredAtTheirMeans) {
  const StartChoice choice = Choose(Options(WriteNumbers("a", 3000)));
  EXPECT_TRUE(choice.normalize);
  ASSERT_EQ(choice.centers.size(), 6u);
  for (const auto& [key, center] : choice.centers) {
    const auto f = static_cast<double>(key);
    EXPECT_NEAR(center, (2 * f - 3) * std::pow(10, f - 3), 0.1 * std::pow(10, f - 3));
  }
  TrainOptions options = Options(folder_ / "a");
  options.shape.intercept = false;
  EXPECT_TRUE(Choose(options).centers.empty()) << "nothing could take up the means";
  options.normalize = Normalize::kOff;
  EXPECT_FALSE(Choose(options).normalize);
}

TEST_F(StartTest, GivenRateIsTakenAsGiven) {
  TrainOptions options = Options(WriteNumbers("a", 2000));
  options.update.rate = 0.07;
  const StartChoice choice = Choose(options);
  EXPECT_EQ(choice.rate, 0.07);
  EXPECT_TRUE(choice.trials.empty());
  EXPECT_EQ(choice.intercept, 0);
}

TEST_F(StartTest, OneRowAndOneClassAreNoError) {
  EXPECT_EQ(Choose(Options(Write("one", "1 3:0.5\n"))).rate, 0.1);
  std::string text;
  for (int r = 0; r < 500; ++r) text += "1 3:" + std::to_string(r) + "\n";
  const StartChoice choice = Choose(Options(Write("class", text)));
  EXPECT_GT(choice.intercept, 5);
  EXPECT_EQ(Choose(Options(Write("empty", ""))).rows, 0u);
}

// Keys from 100 on, which are half of those of a row, are as good as not there: so are their
// weights at a rate that is next to nothing.
TEST_F(StartTest, TrialsTrainFieldsWithTheirOwnNumbers) {
  TrainOptions options = Options(WriteOnes("ones", 6000));
  const auto loss = [&](sparse::KeyGroups groups) {
    options.update.key_groups = std::move(groups);
    return Choose(options).trials.at(1).loss;
  };
  const double plain = loss({});
  const double without_noise = loss({.groups = {{.rate = 1e-6}}, .ranges = {{100, 1}}});
  const double without_signal = loss({.groups = {{.rate = 1e-6}}, .ranges = {{0, 1}, {100, 0}}});
  EXPECT_LT(without_noise, plain);
  EXPECT_GT(without_signal, plain + 0.01);
}

TEST_F(StartTest, SortedLabelsLeaveTheDefaultRate) {
  std::string text;
  for (int r = 0; r < 40000; ++r) {
    text += (r < 25000 ? "1 3:" : "0 3:") + std::to_string(r % 7) + "\n";
  }
  const StartChoice choice = Choose(Options(Write("sorted", text)));
  EXPECT_EQ(choice.rate, 0.1);
  EXPECT_TRUE(choice.trials.empty());
  EXPECT_EQ(choice.intercept, 0);
  EXPECT_TRUE(choice.normalize);
  EXPECT_NE(choice.note.find("have the same label"), std::string::npos) << choice.note;
}

TEST_F(StartTest, FifoLeavesTheDefaults) {
  const std::string path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const StartChoice choice = Choose(Options(path));
  EXPECT_EQ(choice.rate, 0.1);
  EXPECT_TRUE(choice.normalize);
  EXPECT_NE(choice.note.find("cannot be read twice"), std::string::npos) << choice.note;
}

TEST_F(StartTest, SampleIsAFractionOfLargeData) {
  const StartChoice choice = Choose(Options(WriteNumbers("a", 40000)));
  EXPECT_GE(choice.rows, 5000u);
  EXPECT_LE(choice.rows, 6000u);
}

// The model of centered, normalized rows predicts, with the centers it has, what training saw.
TEST_F(StartTest, SavedModelScoresAsTheRunDid) {
  for (const uint64_t num_features : {0, 10}) {
    TrainOptions options = Options(WriteNumbers("train", 6000));
    options.test = options.train;
    options.test.files = {WriteNumbers("test", 1000, 2)};
    options.test.shuffle_capacity = 0;
    options.shape.num_features = num_features;
    options.train.rows.num_features = options.test.rows.num_features = num_features;
    ApplyStart(Choose(options), options);
    auto trainer = SparseTrainer::Create(options, {.now_s = [] { return 0.0; }});
    ASSERT_TRUE(trainer.ok()) << trainer.status().message();
    const auto summary = (*trainer)->Run();
    ASSERT_TRUE(summary.ok() && summary->last_row);
    EXPECT_LT(summary->last_row->Metric("ne"), 0.75);
    EXPECT_NEAR(summary->last_row->Metric("calibration"), 1, 0.1);
    ASSERT_TRUE((*trainer)->SaveModel(folder_ / "model", ModelFormat::kBinary).ok());
    const auto model = LoadModel(folder_ / "model");
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(model->info().centers.size(), 6u);
    io::InputOptions input = options.test;
    input.rows.centers = model->info().centers;
    input.compact = true;
    const auto queue = io::InputQueue::Open(input);
    const io::CsrBatch* batch = nullptr;
    double loss = 0, rows = 0;
    while (*(*queue)->Next(batch)) {
      PodVector<float> margins(batch->rows()), scratch;
      ASSERT_TRUE(model->Margins(*batch, scratch, margins).ok());
      for (size_t r = 0; r < batch->rows(); ++r, ++rows) {
        loss += static_cast<double>(sparse::LogisticLoss(margins[r], batch->labels[r]));
      }
    }
    EXPECT_NEAR(loss / rows, summary->last_row->Metric("logloss"), 1e-6);

    // A warm start from it continues at the same predictions.
    TrainOptions again = options;
    again.model_in = folder_ / "model";
    again.update.rate = 1e-6;
    auto second = SparseTrainer::Create(again, {.now_s = [] { return 0.0; }});
    ASSERT_TRUE(second.ok()) << second.status().message();
    const auto second_summary = (*second)->Run();
    ASSERT_TRUE(second_summary.ok() && second_summary->last_row);
    EXPECT_NEAR(second_summary->last_row->Metric("logloss"), loss / rows, 1e-3);
  }
}

TEST(ChooseTrial, TakesTheBestUnlessTheDefaultIsAsGood) {
  Random random(4);
  std::vector<std::vector<double>> losses(3);
  for (int b = 0; b < 100; ++b) {
    const double common = random.Uniform();
    for (size_t i = 0; i < 3; ++i) losses[i].push_back(common + 0.01 * random.Uniform());
  }
  EXPECT_EQ(ChooseTrial(losses, 1), 1u) << "differences are noise";
  for (double& loss : losses[2]) loss -= 0.02;
  EXPECT_EQ(ChooseTrial(losses, 1), 2u) << "small, but in every batch";
  EXPECT_EQ(ChooseTrial(losses, 1, 0.2), 1u) << "the beginning of a long run";
  losses[2].resize(50);
  EXPECT_EQ(ChooseTrial(losses, 1), 1u) << "it diverged";
  for (int b = 0; b < 25; ++b) losses[0][static_cast<size_t>(b)] -= 5;
  EXPECT_EQ(ChooseTrial(losses, 1), 1u) << "the first quarter does not count";
  EXPECT_EQ(ChooseTrial({{}, {}, {}}, 1), 1u);
}

}  // namespace
}  // namespace millrace::trainer
