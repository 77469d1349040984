// SPDX-License-Identifier: Apache-2.0
// millrace-predict, run as a program.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
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

TEST_F(PredictTest, AKeyBeyondTheModelIsAnError) {
  WriteExamples(folder_ / "wide.tfrecord", {{100}});
  const ProgramRun run = Predict(Model() + (folder_ / "wide.tfrecord"));
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("num_features = 100, found 100"), std::string::npos) << run.err;
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
  EXPECT_EQ(
      error(Model() + "--output=odds x"),
      "millrace-predict: flag --output has the value 'odds'; expected probability or margin\n");
  EXPECT_EQ(error(Model() + "--vocabulary=v x"), "millrace-predict: --vocabulary needs --top=N\n");
  EXPECT_EQ(error(Model() + "--top=3 x"),
            "millrace-predict: --top lists weights and reads no input: leave out x\n");
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

// The margins that a run's model gives to `input`, with its keys and with those of `flags`.
struct Margins {
  ProgramRun of_run, of_flags, of_neither;
};

Margins TrainAndScore(const test::TemporaryFolder& folder, const std::string& flags,
                      const std::string& input) {
  const std::string run = folder / "run", bare = folder / "bare";
  const ProgramRun trained =
      RunProgram("millrace-lr", flags + " --run_dir=" + run + " --train=" + input);
  EXPECT_EQ(trained.status, 0) << trained.err;
  std::filesystem::copy_file(run + "/model/model.bin", bare);
  const std::string score = "--output=margin " + input + " --model=";
  return {Predict(score + run), Predict(score + bare + " " + flags), Predict(score + bare)};
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(PredictTest, HashFlagsComeFromTheRunFolder) {
  test::WriteFile(folder_ / "in.vw", Repeated("1 |f a 7\n-1 |g b 7 |f c\n", 20));
  const Margins margins = TrainAndScore(folder_, "--hash_bits=12 --hash_all", folder_ / "in.vw");
  EXPECT_EQ(margins.of_run.out, margins.of_flags.out);
  EXPECT_EQ(margins.of_flags.err, "");
  EXPECT_NE(margins.of_run.err.find("as in training: --hash_bits=12 --hash_all=true ("),
            std::string::npos)
      << margins.of_run.err;
  EXPECT_NE(margins.of_run.out, margins.of_neither.out);
  EXPECT_NE(margins.of_neither.err.find("warning: 100 % of the entries"), std::string::npos)
      << margins.of_neither.err;
}

TEST_F(PredictTest, FormatAndIndexBaseComeFromTheRunFolder) {
  test::WriteFile(folder_ / "in", Repeated("1 1:1 3:1\n-1 2:1\n", 20));
  const Margins margins = TrainAndScore(folder_, "--format=libsvm --index_base=1", folder_ / "in");
  EXPECT_EQ(margins.of_run.status, 0) << margins.of_run.err;
  EXPECT_EQ(margins.of_run.out, margins.of_flags.out);
  EXPECT_EQ(Numbers(margins.of_run.out).size(), 40u);
  // The command line has precedence.
  const ProgramRun given = Predict("--output=margin --index_base=0 --model=" + (folder_ / "run") +
                                   " " + (folder_ / "in"));
  EXPECT_EQ(given.status, 0) << given.err;
  EXPECT_NE(given.out, margins.of_run.out);
  EXPECT_EQ(given.err.find("--index_base"), std::string::npos) << given.err;
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
    const std::string arguments = "--model=" + (folder_ / "open") + " " + (folder_ / name);
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
  io::StateFields net, shard;
  net.Add("kind", "net");
  net.Add("net", "lenet");
  shard.Add("kind", "shard");
  EXPECT_NE(error(net).find("found the net lenet: millrace-convnet takes it as its model_in"),
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
