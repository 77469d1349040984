// SPDX-License-Identifier: Apache-2.0
// millrace-predict, run as a program.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "io/state/state_file.h"
#include "io/text/criteo.h"
#include "sparse/local_store.h"
#include "tests/support/program.h"
#include "trainer/model/model_file.h"

namespace millrace::predict {
namespace {

using test::ProgramRun;
using test::RunProgram;

ProgramRun Predict(const std::string& arguments) {
  return RunProgram("millrace-predict", arguments);
}

void SaveTestModel(const std::string& path, uint64_t num_features,
                   const std::vector<std::pair<uint64_t, float>>& weights) {
  auto store = sparse::LocalStore::Create({num_features}, {.rule = sparse::Rule::kSgd});
  ASSERT_TRUE(store.ok());
  for (const auto& [key, w] : weights) ASSERT_TRUE((*store)->Load(key, {&w, 1}).ok());
  ASSERT_TRUE(SaveModel(**store, path, trainer::ModelFormat::kBinary).ok());
}

void WriteExamples(const std::string& path, const std::vector<std::vector<uint64_t>>& rows) {
  auto writer = io::RecordWriter::Create(path, {});
  ASSERT_TRUE(writer.ok());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string record;
    io::EncodeSparseExample({}, static_cast<int64_t>(r % 2), rows[r], {}, record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
}

std::vector<double> Numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> numbers;
  for (double number; in >> number;) numbers.push_back(number);
  return numbers;
}

// A model of three weights; three examples with margins 0.5, -2 and -1.5.
class PredictTest : public testing::Test {
 protected:
  void SetUp() override {
    SaveTestModel(folder_ / "model", 100, {{1, .5f}, {7, -2}, {99, .25f}});
    WriteExamples(folder_ / "a.tfrecord", {{1, 50}, {7}, {1, 7}});
  }
  std::string Model() const { return "--model=" + (folder_ / "model") + " "; }

  test::TemporaryFolder folder_;
};

TEST_F(PredictTest, MarginsAreInTheOrderOfTheRecords) {
  const ProgramRun run = Predict(Model() + "--output=margin " + (folder_ / "a.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "0.5\n-2\n-1.5\n");
  EXPECT_EQ(run.err, "");
}

TEST_F(PredictTest, ManyFilesKeepTheirOrder) {
  std::vector<std::vector<uint64_t>> ones(5000, {1}), sevens(5000, {7});
  WriteExamples(folder_ / "z.tfrecord", ones);
  WriteExamples(folder_ / "b.tfrecord", sevens);
  const ProgramRun run = Predict(Model() + "--output=margin " + (folder_ / "z.tfrecord") + " '" +
                                 (folder_ / "[ab].tfrecord'"));
  EXPECT_EQ(run.status, 0) << run.err;
  std::vector<double> expected(5000, .5);
  expected.insert(expected.end(), {.5, -2, -1.5});
  expected.insert(expected.end(), 5000, -2);
  EXPECT_EQ(Numbers(run.out), expected);
}

TEST_F(PredictTest, ProbabilitiesAreSigmoidsOfMargins) {
  const ProgramRun run = Predict(Model() + (folder_ / "a.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  const std::vector<double> numbers = Numbers(run.out);
  ASSERT_EQ(numbers.size(), 3u);
  EXPECT_NEAR(numbers[0], 1 / (1 + std::exp(-.5)), 1e-9);
  EXPECT_NEAR(numbers[1], 1 / (1 + std::exp(2.0)), 1e-9);
  EXPECT_NEAR(numbers[2], 1 / (1 + std::exp(1.5)), 1e-9);
}

TEST_F(PredictTest, StandardInputAndAFileForTheScores) {
  test::WriteFile(folder_ / "rows", "1 1:1 99:2\n0 8:1\n");
  const ProgramRun run =
      Predict(Model() + "--output=margin --format=libsvm --out=" + (folder_ / "scores") + " - <" +
              (folder_ / "rows"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(test::ReadFile(folder_ / "scores"), "1\n0\n");
}

TEST_F(PredictTest, HashedKeyModelsTakeAnyKey) {
  SaveTestModel(folder_ / "open", 0, {{~uint64_t{0} - 1, 3}});
  WriteExamples(folder_ / "wide.tfrecord", {{~uint64_t{0} - 1}, {123456789012345}});
  const ProgramRun run =
      Predict("--model=" + (folder_ / "open") + " --output=margin " + (folder_ / "wide.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "3\n0\n");
}

TEST_F(PredictTest, MetricsGoToStandardError) {
  const ProgramRun run = Predict(Model() + "--metrics --out=/dev/null " + (folder_ / "a.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_NE(run.err.find("examples    3\naccuracy    0.333333\n"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("\nauc         0.000000\n"), std::string::npos) << run.err;
}

TEST_F(PredictTest, TopListsTheLargestWeights) {
  const ProgramRun run = Predict(Model() + "--top=2");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "7\t-2\n1\t0.5\n");
  EXPECT_EQ(run.err,
            (folder_ / "model") + ": 3 weights, num_features = 100, sgd, 0 steps, 0 examples\n");
  EXPECT_EQ(Predict(Model() + "--top=9").out, "7\t-2\n1\t0.5\n99\t0.25\n");
}

TEST_F(PredictTest, InterceptIsInEveryScoreAndHasAName) {
  SaveTestModel(folder_ / "with", 100, {{1, .5f}, {io::kInterceptKey, -3}});
  SaveTestModel(folder_ / "without", 100, {{1, .5f}});
  const std::string score = "--output=margin " + (folder_ / "a.tfrecord") + " --model=";
  const auto with = Numbers(Predict(score + (folder_ / "with")).out),
             without = Numbers(Predict(score + (folder_ / "without")).out);
  ASSERT_EQ(with.size(), without.size());
  ASSERT_FALSE(with.empty());
  for (size_t i = 0; i < with.size(); ++i) EXPECT_DOUBLE_EQ(with[i], without[i] - 3);
  EXPECT_EQ(Predict("--top=2 --model=" + (folder_ / "with")).out, "(intercept)\t-3\n1\t0.5\n");
}

TEST_F(PredictTest, TopNamesTheFeaturesOfAVocabulary) {
  io::CriteoVocabulary vocabulary;
  io::CriteoLine line;
  const std::string text = "1\t3" + std::string(38, '\t') + "6fcd6dcb";
  ASSERT_TRUE(*io::SplitCriteoLine(text, line));
  vocabulary.Count(line);
  vocabulary.Freeze(1);
  ASSERT_TRUE(vocabulary.Save(folder_ / "vocabulary").ok());
  const uint64_t num_features = vocabulary.num_features();
  SaveTestModel(folder_ / "criteo", num_features,
                {{1, .5f}, {num_features - 1, -2}, {io::kInterceptKey, 1}});
  const std::string names = " --top=5 --vocabulary=" + (folder_ / "vocabulary");
  const ProgramRun run = Predict("--model=" + (folder_ / "criteo") + names);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, std::to_string(num_features - 1) + "\t-2\tC26=6fcd6dcb\n" +
                         "(intercept)\t1\t(intercept)\n1\t0.5\tI1=3\n");
  const ProgramRun other = Predict(Model() + names);
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("expected a vocabulary of num_features = 100 like the model, found"),
            std::string::npos);
}

TEST_F(PredictTest, CorruptionFailsOrIsSkippedAndReported) {
  std::string bytes = test::ReadFile(folder_ / "a.tfrecord");
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  test::WriteFile(folder_ / "a.tfrecord", bytes);
  const ProgramRun failing =
      Predict(Model() + "--out=" + (folder_ / "scores") + " " + (folder_ / "a.tfrecord"));
  EXPECT_EQ(failing.status, 1);
  EXPECT_NE(failing.err.find((folder_ / "a.tfrecord") + ": offset "), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "scores"));
  const ProgramRun skipping =
      Predict(Model() + "--output=margin --on_corrupt=skip " + (folder_ / "a.tfrecord"));
  EXPECT_EQ(skipping.status, 0);
  EXPECT_EQ(skipping.out, "-2\n-1.5\n");
  EXPECT_NE(skipping.err.find("skipped 1 corrupt region "), std::string::npos) << skipping.err;
}

TEST_F(PredictTest, UnknownKeysAreIgnoredOrErrors) {
  // Key 100 is beyond the model, key 50 has no weight.
  WriteExamples(folder_ / "b.tfrecord", {{1}, {7, 100}, {50}});
  test::WriteFile(folder_ / "b.svm", "1 1:1\n0 7:1 100:1\n# comment\n1 50:1\n");
  test::WriteFile(folder_ / "c.svm", "1 1:1\n\n1 7:1 50:1\n");
  for (const char* name : {"b.tfrecord", "b.svm"}) {
    SCOPED_TRACE(name);
    const ProgramRun ignored = Predict(Model() + "--output=margin " + (folder_ / name));
    EXPECT_EQ(ignored.status, 0) << ignored.err;
    EXPECT_EQ(ignored.out, "0.5\n-2\n0\n");
    const ProgramRun error = Predict(Model() + "--unknown_key=error " + (folder_ / name));
    EXPECT_EQ(error.status, 1);
    EXPECT_NE(error.err.find(folder_ / name), std::string::npos) << error.err;
    EXPECT_NE(error.err.find("num_features = 100, found 100"), std::string::npos) << error.err;
  }
  const ProgramRun error = Predict(Model() + "--unknown_key=error " + (folder_ / "c.svm"));
  EXPECT_EQ(error.status, 1);
  EXPECT_EQ(error.err, "millrace-predict: " + (folder_ / "c.svm") +
                           ":3: offset 7: key 50: expected a weight in the model, found none\n");
  const ProgramRun known = Predict(
      Model() + "--output=margin --unknown_key=error - --format=libsvm < " + (folder_ / "known"));
  EXPECT_NE(known.status, 0);
  test::WriteFile(folder_ / "known", "1 1:1 99:2\n");
  EXPECT_EQ(Predict(Model() + "--output=margin --unknown_key=error --format=libsvm - < " +
                    (folder_ / "known"))
                .out,
            "1\n");
}

TEST_F(PredictTest, MetricsSayHowManyKeysHaveAWeight) {
  const auto coverage = [&](const std::string& rows) {
    test::WriteFile(folder_ / "rows.svm", rows);
    const ProgramRun run = Predict(Model() + "--metrics --out=/dev/null " + (folder_ / "rows.svm"));
    EXPECT_EQ(run.status, 0) << run.err;
    const size_t at = run.err.find(" % of keys");
    if (at == std::string::npos) return std::string();
    const size_t line = run.err.rfind('\n', at) + 1;
    return run.err.substr(line, run.err.find('\n', at) - line);
  };
  // Four keys of which two have a weight, with 4 of the 10 that the values sum up to.
  EXPECT_EQ(coverage("1 1:1 50:2\n0 7:-3 100:4\n"),
            "50.0 % of keys have a weight (40.0 % of the rows' values)");
  EXPECT_EQ(coverage("1 1:1\n0 1:1 7:1\n"),
            "100.0 % of keys have a weight (100.0 % of the rows' values)");
  EXPECT_EQ(coverage("1\n0\n"), "");  // no keys at all
}

// The sample of keys gets thinner when there are very many; the share stays right.
TEST_F(PredictTest, ShareOfVeryManyKeysIsEstimated) {
  std::vector<std::pair<uint64_t, float>> weights;
  for (uint64_t key = 0; key < 300'000; key += 3) weights.emplace_back(key, 1.0f);
  SaveTestModel(folder_ / "large", 300'000, weights);
  std::vector<std::vector<uint64_t>> rows;
  for (uint64_t key = 0; key < 300'000; key += 100) {
    rows.emplace_back();
    for (uint64_t i = 0; i < 100; ++i) rows.back().push_back(key + i);
  }
  WriteExamples(folder_ / "large.tfrecord", rows);
  const ProgramRun run = Predict("--model=" + (folder_ / "large") + " --metrics --out=/dev/null " +
                                 (folder_ / "large.tfrecord"));
  EXPECT_EQ(run.status, 0) << run.err;
  const size_t line = run.err.rfind('\n', run.err.find(" % of keys")) + 1;
  EXPECT_NEAR(std::strtod(run.err.c_str() + line, nullptr), 33.3, 1) << run.err;
  EXPECT_NE(run.err.find("(33.3 % of the rows' values)"), std::string::npos) << run.err;
}

TEST_F(PredictTest, WrongCommandLinesHaveAdvice) {
  const auto error = [](const std::string& arguments) {
    const ProgramRun run = Predict(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    return run.err;
  };
  EXPECT_EQ(error("x.tfrecord"),
            "millrace-predict: no model: write --model=FILE, or --model=RUN_DIR\n");
  EXPECT_EQ(error(Model()),
            "millrace-predict: no input: name files, globs in quotes, @list, or - for standard "
            "input\n");
  EXPECT_EQ(error(Model() + "--output=odds x"),
            "millrace-predict: flag --output has the value 'odds'; expected probability, margin or "
            "labeled\n");
  EXPECT_EQ(error(Model() + "--vocabulary=v x"),
            "millrace-predict: --vocabulary has no effect without --top\n");
  EXPECT_EQ(
      error(Model() + "--top=3 x"),
      "millrace-predict: --top reads rows only for a model with a feature spec: leave out x\n");
  EXPECT_EQ(error(Model() + "--topp=3"),
            "millrace-predict: unknown flag --topp; did you mean --top?\n");
  EXPECT_NE(error(Model() + "--format=vw x").find("--hash_bits"), std::string::npos);
}

TEST_F(PredictTest, MissingOrCorruptModelIsNamed) {
  const ProgramRun missing = Predict("--model=" + (folder_ / "none") + " x");
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "millrace-predict: " + (folder_ / "none") + ": no such file\n");
  const std::string bytes = test::ReadFile(folder_ / "model");
  test::WriteFile(folder_ / "cut", bytes.substr(0, bytes.size() - 1));
  const ProgramRun corrupt =
      Predict("--model=" + (folder_ / "cut") + " " + (folder_ / "a.tfrecord"));
  EXPECT_EQ(corrupt.status, 1);
  EXPECT_EQ(corrupt.out, "");
  EXPECT_NE(corrupt.err.find((folder_ / "cut") + ": offset "), std::string::npos);
}

TEST_F(PredictTest, RunFolderIsReadAsItsModel) {
  const std::string run = folder_ / "run";
  std::filesystem::create_directories(run + "/model");
  test::WriteFile(run + "/run.json", "{}");
  const ProgramRun none = Predict("--model=" + run + " x");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("found a folder without model/model.bin: this run has not finished"),
            std::string::npos)
      << none.err;
  std::filesystem::copy_file(folder_ / "model", run + "/model/model.bin");
  const std::string input = folder_ / "a.tfrecord";
  const std::string scores = Predict(Model() + input).out;
  EXPECT_EQ(Predict("--model=" + run + " " + input).out, scores);
  EXPECT_EQ(Predict("--model=" + run + "/model " + input).out, scores);
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Trained on every format with settings that are not the defaults: the scores of the run folder, of
// its model copied elsewhere, and of the text export are the same without any flag.
TEST_F(PredictTest, ModelsKnowHowTheirInputIsWritten) {
  test::WriteFile(folder_ / "in.vw", Repeated("1 |f a 7\n-1 |g b 7 |f c\n", 20));
  test::WriteFile(folder_ / "rows", Repeated("1 |f a 7\n-1 |g b 7 |f c\n", 20));
  test::WriteFile(folder_ / "one_based", Repeated("1 1:1 3:1\n-1 2:1\n", 20));
  test::WriteFile(folder_ / "with_fields", Repeated("1 7:1:1 2:3:1\n-1 9:2:1\n", 20));
  test::WriteFile(
      folder_ / "day.tsv",
      Repeated("1\t3" + std::string(38, '\t') + "aa\n0" + std::string(39, '\t') + "bb\n", 20));
  io::FeatureNames names = {.label = "click", .index = "ids", .value = "x", .weight = ""};
  auto writer = io::RecordWriter::Create(folder_ / "named", {});
  ASSERT_TRUE(writer.ok());
  for (uint64_t r = 0; r < 40; ++r) {
    std::string record;
    const uint64_t keys[] = {r % 2, 5};
    const float values[] = {.5f, 2};
    io::EncodeSparseExample(names, static_cast<int64_t>(r % 2), keys, values, record);
    ASSERT_TRUE(writer->Append(record).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  const std::pair<std::string, std::string> cases[] = {
      {"--hash_bits=12 --novw_hash_all", "in.vw"},
      {"--hash_bits=12 --num_features=4096", "in.vw"},
      {"--hash_bits=0 --novw_hash_all", "in.vw"},
      {"", "in.vw"},
      {"--format=vw --hash_bits=13 --num_features=9000", "rows"},
      {"--format=libsvm --index_base=1", "one_based"},
      {"--index_base=1", "with_fields"},
      {"--hash_bits=11", "day.tsv"},
      {"--label_feature=click --index_feature=ids --value_feature=x", "named"},
  };
  int number = 0;
  for (const auto& [flags, input] : cases) {
    SCOPED_TRACE(flags + " " + input);
    const std::string run = folder_ / ("run" + std::to_string(++number));
    const std::string train = flags + " --train=" + (folder_ / input);
    const ProgramRun trained = RunProgram("millrace-lr", train + " --run_dir=" + run);
    ASSERT_EQ(trained.status, 0) << trained.err;
    ASSERT_EQ(
        RunProgram("millrace-lr", train + " --model_format=text --run_dir=" + run + "t").status, 0);
    const std::string copy = folder_ / ("copy" + std::to_string(number));
    std::filesystem::copy_file(run + "/model/model.bin", copy);
    const std::string score = "--output=margin " + (folder_ / input);
    const ProgramRun scores = Predict(score + " --model=" + run);
    EXPECT_EQ(scores.status, 0) << scores.err;
    const std::vector<double> margins = Numbers(scores.out);
    ASSERT_EQ(margins.size(), 40u);
    EXPECT_LT(margins[0] * margins[1], 0) << "one class of each sign: the keys have their weights";
    EXPECT_EQ(Predict(score + " --model=" + copy).out, scores.out);
    EXPECT_EQ(Predict(score + " --model=" + run + "t").out, scores.out);
    // Standard input has no name: its format is that of the training data.
    EXPECT_EQ(Predict("--output=margin --model=" + copy + " - < " + (folder_ / input)).out,
              scores.out);
  }
}

// Columns far from 0: an intercept that takes up their means would lose the digits that matter.
TEST_F(PredictTest, MetricsOfCenteredColumnsAreThoseOfTraining) {
  std::string rows;
  for (int i = 0; i < 2000; ++i) {
    const int a = i * 7 % 101, b = i * 13 % 89, noise = i * 31 % 17;
    rows += (a + 3 * b + 5 * noise > 230 ? "1 0:" : "0 0:") + std::to_string(1000000000 + 640 * a) +
            " 1:" + std::to_string(-5000000 + b) + " " + std::to_string(2 + noise) + ":1\n";
  }
  test::WriteFile(folder_ / "far.libsvm", rows);
  const std::string input = folder_ / "far.libsvm", run = folder_ / "run";
  const std::string train = "--num_features=20 --train=" + input + " --test=" + input;
  ASSERT_EQ(RunProgram("millrace-lr", train + " --run_dir=" + run).status, 0);
  ASSERT_EQ(RunProgram("millrace-lr", train + " --model_format=text --run_dir=" + run + "t").status,
            0);
  const std::string json = test::ReadFile(run + "/run.json");
  const auto metric = [](const std::string& text, const std::string& name) {
    const size_t at = text.find(name);
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    const size_t digits = text.find_first_of("0123456789", at + name.size());
    return at == std::string::npos ? 0 : std::strtod(text.c_str() + digits, nullptr);
  };
  const std::string state = run + "/checkpoints/shard-0";
  std::string checkpoint;
  for (const auto& file : std::filesystem::directory_iterator(state)) checkpoint = file.path();
  const std::string score = "--output=margin --metrics " + input + " --model=";
  const ProgramRun scores = Predict(score + run);
  ASSERT_EQ(scores.status, 0) << scores.err;
  EXPECT_LT(metric(scores.err, "logloss"), 0.5);
  EXPECT_NEAR(metric(scores.err, "logloss"), metric(json, "\"logloss\""), 6e-7);
  EXPECT_NEAR(metric(scores.err, "calibration"), metric(json, "\"calibration\""), 6e-7);
  EXPECT_EQ(Predict(score + run + "t").out, scores.out);
  EXPECT_EQ(Predict(score + checkpoint).out, scores.out);
}

TEST_F(PredictTest, FlagsThatContradictTheModelAreErrors) {
  test::WriteFile(folder_ / "in.vw", Repeated("1 |f a 7\n-1 |g b 7 |f c\n", 20));
  test::WriteFile(folder_ / "in.tsv", "1\t3" + std::string(38, '\t') + "aa\n");
  test::WriteFile(folder_ / "in.svm", "1 1:1\n");
  ASSERT_EQ(RunProgram("millrace-lr", "--hash_bits=12 --novw_hash_all --nointercept --train=" +
                                          (folder_ / "in.vw") + " --run_dir=" + (folder_ / "run"))
                .status,
            0);
  const auto error = [&](const std::string& arguments) {
    const ProgramRun run = Predict("--model=" + (folder_ / "run") + " " + arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    return run.err;
  };
  EXPECT_EQ(error("--hash_bits=13 " + (folder_ / "in.vw")),
            "millrace-predict: --hash_bits=13: the model was trained on vw text with "
            "--hash_bits=12: leave the flag out\n");
  EXPECT_EQ(error("--hash_bits=0 " + (folder_ / "in.vw")),
            "millrace-predict: --hash_bits=0: the model was trained on vw text with "
            "--hash_bits=12: leave the flag out\n");
  EXPECT_NE(error("--vw_hash_all " + (folder_ / "in.vw")).find("--vw_hash_all: "),
            std::string::npos);
  EXPECT_EQ(error(folder_ / "in.tsv"),
            "millrace-predict: the input is criteo text: the model was trained on vw text, which "
            "makes other keys\n");
  // The same value is no contradiction, and keys may come from another format.
  EXPECT_EQ(
      Predict("--model=" + (folder_ / "run") + " --hash_bits=12 " + (folder_ / "in.vw")).status, 0);
  EXPECT_EQ(Predict("--model=" + (folder_ / "run") + " " + (folder_ / "in.svm")).out, "0.5\n");
}

// The command line has precedence where both can work.
TEST_F(PredictTest, GivenIndexBaseWins) {
  test::WriteFile(folder_ / "one_based", Repeated("1 1:1 3:1\n-1 2:1\n", 20));
  test::WriteFile(folder_ / "zero_based", Repeated("1 0:1 2:1\n-1 1:1\n", 20));
  ASSERT_EQ(RunProgram("millrace-lr",
                       "--format=libsvm --index_base=1 --train=" + (folder_ / "one_based") +
                           " --run_dir=" + (folder_ / "run"))
                .status,
            0);
  const std::string model = "--output=margin --model=" + (folder_ / "run") + " ";
  const std::string scores = Predict(model + (folder_ / "one_based")).out;
  EXPECT_EQ(Predict(model + "--index_base=0 " + (folder_ / "zero_based")).out, scores);
  EXPECT_NE(Predict(model + (folder_ / "zero_based")).status, 0);
}

// A program that answers through pipes.
class Dialog {
 public:
  // `arguments` of millrace-predict; IN is a FIFO.
  Dialog(const test::TemporaryFolder& folder, std::string arguments)
      : in_(folder / "in"), out_(folder / "out") {
    for (const std::string& path : {in_, out_}) EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    // Open for both directions: neither end waits for the other.
    write_ = ::open(in_.c_str(), O_RDWR | O_CLOEXEC);
    read_ = ::open(out_.c_str(), O_RDWR | O_CLOEXEC);
    arguments.replace(arguments.find("IN"), 2, in_);
    program_.emplace(
        std::vector<std::string>{"/bin/sh", "-c",
                                 "exec " + test::ProgramPath("millrace-predict") + " " + arguments},
        "", out_, folder / "err");
  }
  ~Dialog() {
    Close();
    ::close(read_);
  }

  void Send(std::string_view bytes) {
    EXPECT_EQ(::write(write_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  // The next line without its end; "nothing" if none comes in time.
  std::string Receive(std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (received_.find('\n') == std::string::npos) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      pollfd fd = {read_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&fd, 1, static_cast<int>(left.count())) <= 0)
        return "nothing";
      char bytes[4096];
      const ssize_t got = ::read(read_, bytes, sizeof bytes);
      if (got > 0) received_.append(bytes, static_cast<size_t>(got));
    }
    const size_t end = received_.find('\n');
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }
  // The end of the input.
  void Close() {
    if (write_ >= 0) ::close(write_);
    write_ = -1;
  }
  int Wait() { return program_->Wait(); }

 private:
  std::string in_, out_, received_;
  int write_ = -1, read_ = -1;
  std::optional<test::Program> program_;
};

std::string Framed(const std::vector<uint64_t>& keys) {
  std::string record, frame;
  io::EncodeSparseExample({}, 1, keys, {}, record);
  io::AppendFrame(record, frame);
  return frame;
}

TEST_F(PredictTest, AnswersEachLineBeforeTheNextOne) {
  for (const char* input :
       {"--format=libsvm IN", "--format=libsvm - < IN", "--format=libsvm --threads=1 IN",
        "--format=vw --hash_bits=7 --novw_hash_all IN"}) {
    SCOPED_TRACE(input);
    const test::TemporaryFolder folder;
    Dialog dialog(folder, Model() + "--output=margin " + input);
    const bool vw = std::string(input).find("vw") != std::string::npos;
    for (int i = 0; i < 100; ++i) {
      const std::string key = i % 2 == 0 ? "1" : "7";
      dialog.Send(vw ? "|f " + key + "\n" : "0 " + key + ":1\n");
      ASSERT_EQ(dialog.Receive(), i % 2 == 0 ? "0.5" : "-2") << i;
    }
    dialog.Close();
    EXPECT_EQ(dialog.Wait(), 0);
  }
}

TEST_F(PredictTest, AnswersEachRecordBeforeTheNextOne) {
  for (const char* input : {"--format=tfrecord IN", "--format=tfrecord - < IN"}) {
    SCOPED_TRACE(input);
    const test::TemporaryFolder folder;
    Dialog dialog(folder, Model() + "--output=margin " + input);
    for (int i = 0; i < 100; ++i) {
      dialog.Send(i % 2 == 0 ? Framed({1}) : Framed({7, 1}));
      ASSERT_EQ(dialog.Receive(), i % 2 == 0 ? "0.5" : "-1.5") << i;
    }
    dialog.Close();
    EXPECT_EQ(dialog.Wait(), 0);
  }
}

TEST_F(PredictTest, HalfALineWaitsForItsEnd) {
  Dialog dialog(folder_, Model() + "--output=margin --format=libsvm IN");
  dialog.Send("0 1:1\n0 7");
  EXPECT_EQ(dialog.Receive(), "0.5");
  EXPECT_EQ(dialog.Receive(std::chrono::milliseconds(100)), "nothing");
  dialog.Send(":");
  dialog.Send("1");
  EXPECT_EQ(dialog.Receive(std::chrono::milliseconds(100)), "nothing");
  dialog.Send("\n# a comment has no answer\n0 1:1 7:1\n0 99:2");
  EXPECT_EQ(dialog.Receive(), "-2");
  EXPECT_EQ(dialog.Receive(), "-1.5");
  dialog.Close();  // the last line needs no end
  EXPECT_EQ(dialog.Receive(), "0.5");
  EXPECT_EQ(dialog.Wait(), 0);
}

// The client sends no more until it has an answer, so the program must not wait for input.
TEST_F(PredictTest, BadLineEndsTheProgramAtOnce) {
  Dialog dialog(folder_, Model() + "--output=margin --format=libsvm IN");
  dialog.Send("0 1:1\n");
  EXPECT_EQ(dialog.Receive(), "0.5");
  dialog.Send("0 x\n");
  EXPECT_EQ(dialog.Wait(), 1);
  EXPECT_NE(test::ReadFile(folder_ / "err").find("offset 6: column 3"), std::string::npos)
      << test::ReadFile(folder_ / "err");
}

// Bursts of any size are answered completely, although the queue of batches is short.
TEST_F(PredictTest, AnswersBurstsOfLines) {
  Dialog dialog(folder_, Model() + "--output=margin --threads=1 --format=libsvm IN");
  for (int size = 1; size < 60; ++size) {
    for (int i = 0; i < size; ++i) dialog.Send(i % 3 == 0 ? "0 1:1\n" : "0 7:1\n");
    for (int i = 0; i < size; ++i) ASSERT_EQ(dialog.Receive(), i % 3 == 0 ? "0.5" : "-2") << size;
  }
  dialog.Close();
  EXPECT_EQ(dialog.Wait(), 0);
}

TEST_F(PredictTest, RowsWithoutLabelAreScored) {
  SaveTestModel(folder_ / "open", 0, {{1, .5f}, {7, -2}});
  io::ExampleBuilder builder;
  const int64_t keys[] = {1, 7};
  std::string record;
  builder.AddInt64("index", keys);
  builder.Finish(record);
  auto writer = io::RecordWriter::Create(folder_ / "bare.tfrecord", {});
  ASSERT_TRUE(writer.ok() && writer->Append(record).ok() && writer->Close().ok());
  test::WriteFile(folder_ / "bare.vw", "|f 1 7\n");
  test::WriteFile(folder_ / "bare.svm", "1:1 7:1\n");
  for (const char* name : {"bare.tfrecord", "bare.vw", "bare.svm"}) {
    SCOPED_TRACE(name);
    const bool vw = std::string_view(name) == "bare.vw";
    const std::string arguments = std::string(vw ? "--novw_hash_all " : "") +
                                  "--model=" + (folder_ / "open") + " " + (folder_ / name);
    const ProgramRun run = Predict("--output=margin " + arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "-1.5\n");
    const ProgramRun measured = Predict("--metrics " + arguments);
    EXPECT_EQ(measured.status, 1);
    EXPECT_NE(measured.err.find("row 1 of the input has no label: --metrics needs labels"),
              std::string::npos)
        << measured.err;
    EXPECT_EQ(RunProgram("millrace-lr", "--train=" + (folder_ / name)).status, 1);
  }
  const std::string cells = std::string(39, '\t') + "aa\n";
  test::WriteFile(folder_ / "bare.tsv", cells);
  test::WriteFile(folder_ / "labelled.tsv", "1" + cells);
  const std::string model = "--model=" + (folder_ / "open") + " ";
  EXPECT_EQ(Predict(model + (folder_ / "bare.tsv")).out, "0.5\n");
  EXPECT_EQ(Predict(model + (folder_ / "labelled.tsv")).out, "0.5\n");
  EXPECT_EQ(Predict(model + "--metrics " + (folder_ / "bare.tsv")).status, 1);
}

TEST_F(PredictTest, OtherStateFilesAreRefusedByKind) {
  const auto error = [&](const io::StateFields& fields) {
    auto writer = io::StateWriter::Create(folder_ / "other", fields, {});
    EXPECT_TRUE(writer.ok() && writer->Finish().ok());
    return Predict("--model=" + (folder_ / "other") + " x").err;
  };
  io::StateFields checkpoint, shard;
  checkpoint.Add("kind", "net_checkpoint");
  shard.Add("kind", "shard");
  EXPECT_NE(error(checkpoint)
                .find("expected the model of a net, found a state file of kind "
                      "net_checkpoint"),
            std::string::npos);
  EXPECT_NE(error(shard).find("found the checkpoint of one server"), std::string::npos);
}

TEST_F(PredictTest, HelpHasTheFlagsAndExamples) {
  const ProgramRun run = Predict("--help");
  EXPECT_EQ(run.status, 0);
  for (const char* word : {"--model=", "--top=", "--on_corrupt=", "Examples:"}) {
    EXPECT_NE(run.out.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace millrace::predict
