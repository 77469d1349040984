// SPDX-License-Identifier: Apache-2.0
// millrace-convnet as people run it: real processes, real files.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string_view>

#include "io/base/random.h"
#include "io/example/example_encoder.h"
#include "io/record/record_writer.h"
#include "tests/support/program.h"

namespace millrace::convnet {
namespace {

using test::ProgramRun;
using test::RunProgram;

namespace fs = std::filesystem;

std::string BigEndian(uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8),
          static_cast<char>(x)};
}

// Digits that are easy to distinguish: class c has a bright bar in rows 2c to 2c + 2.
void WriteIdx(const test::TemporaryFolder& folder, const std::string& name, uint32_t count) {
  Random random(count);
  std::string images = BigEndian(0x803) + BigEndian(count) + BigEndian(28) + BigEndian(28);
  std::string labels = BigEndian(0x801) + BigEndian(count);
  for (uint32_t n = 0; n < count; ++n) {
    const uint64_t label = random.Below(10);
    labels += static_cast<char>(label);
    for (uint64_t at = 0; at < 784; ++at) {
      const bool bright = at / 28 >= 2 * label && at / 28 <= 2 * label + 2;
      images += static_cast<char>(random.Below(100) + (bright ? 150 : 0));
    }
  }
  test::WriteFile(folder / (name + "-images-ubyte"), images);
  test::WriteFile(folder / (name + "-labels-ubyte"), labels);
}

class ConvnetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = std::make_unique<test::TemporaryFolder>();
    WriteIdx(*data_, "train", 1000);
    WriteIdx(*data_, "test", 200);
  }
  static void TearDownTestSuite() { data_.reset(); }

  static std::string Data() {
    const auto pair = [](const std::string& name) {
      return *data_ / (name + "-images-ubyte") + "," + *data_ / (name + "-labels-ubyte");
    };
    return "--train=" + pair("train") + " --test=" + pair("test") + " ";
  }

  static std::unique_ptr<test::TemporaryFolder> data_;
  test::TemporaryFolder folder_;
};
std::unique_ptr<test::TemporaryFolder> ConvnetTest::data_;

// The value of a column in the last row of a run's metrics.csv.
double LastMetric(const std::string& run, const std::string& name) {
  std::istringstream lines(test::ReadFile(run + "/metrics.csv"));
  std::string head, line, last, word;
  std::getline(lines, head);
  while (std::getline(lines, line)) last = line;
  std::istringstream names(head), values(last);
  while (std::getline(names, word, ',') && word != name) std::getline(values, line, ',');
  std::getline(values, line, ',');
  return std::strtod(line.c_str(), nullptr);
}

TEST_F(ConvnetTest, PredictScoresASavedNet) {
  for (const std::string net : {"softmax", "lenet"}) {
    SCOPED_TRACE(net);
    const std::string run = folder_ / net;
    // Settings that a prediction must find in the model.
    const ProgramRun trained = RunProgram(
        "millrace-convnet", "--net=" + net + " --epochs=1 --mean=30 --scale=200 --batch_size=50 " +
                                Data() + "--run_dir=" + run);
    ASSERT_EQ(trained.status, 0) << trained.err;
    fs::copy_file(run + "/model/model.bin", folder_ / (net + ".bin"));
    const std::string images = *data_ / "test-images-ubyte", labels = *data_ / "test-labels-ubyte";
    for (const std::string& model : {run, folder_ / (net + ".bin")}) {
      const ProgramRun scored = RunProgram(
          "millrace-predict", "--model=" + model + " --metrics " + images + " " + labels);
      ASSERT_EQ(scored.status, 0) << scored.err;
      char accuracy[64], logloss[64];
      std::snprintf(accuracy, sizeof accuracy, "accuracy    %.6f\n", LastMetric(run, "accuracy"));
      std::snprintf(logloss, sizeof logloss, "logloss     %.6f\n", LastMetric(run, "logloss"));
      EXPECT_EQ(scored.err, std::string("examples    200\n") + accuracy + logloss);
      // The lines give the same accuracy.
      std::istringstream lines(scored.out);
      const std::string truth = test::ReadFile(labels);
      size_t rows = 0, correct = 0;
      int label = 0;
      for (double p = 0; lines >> label >> p; ++rows) {
        EXPECT_TRUE(p > 0.0999 && p <= 1) << p;
        correct += label == truth[8 + rows];
      }
      EXPECT_EQ(rows, 200u);
      EXPECT_NEAR(static_cast<double>(correct) / 200, LastMetric(run, "accuracy"), 1e-9);
      // Labels are not needed without --metrics.
      EXPECT_EQ(RunProgram("millrace-predict", "--model=" + model + " " + images).out, scored.out);
      const ProgramRun unlabelled =
          RunProgram("millrace-predict", "--model=" + model + " --metrics " + images);
      EXPECT_EQ(unlabelled.status, 1);
      EXPECT_NE(unlabelled.err.find("image 1 of the input has no label"), std::string::npos);
    }
  }
  const std::string net = "--model=" + (folder_ / "lenet") + " ";
  const auto error = [](const std::string& arguments) {
    const ProgramRun run = RunProgram("millrace-predict", arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    return run.err;
  };
  for (const std::string flag : {"hash_bits=3", "top=3", "output=margin"}) {
    const std::string name = flag.substr(0, flag.find('='));
    EXPECT_EQ(error(net + "--" + flag + (name == "top" ? "" : " x")),
              "millrace-predict: --" + name +
                  " has no effect: it belongs to a model of millrace-lr, found --model=" +
                  (folder_ / "lenet") + ", which is a net\n");
  }
  EXPECT_NE(error(net + (*data_ / "test-labels-ubyte")).find("found labels alone"),
            std::string::npos);
}

// Records of raw images, with classes that count from 1.
TEST_F(ConvnetTest, PredictGivesTheLabelsOfRecords) {
  io::ExampleBuilder builder;
  std::string pixels(784, '\0'), record;
  for (const bool labelled : {true, false}) {
    auto writer = io::RecordWriter::Create(folder_ / (labelled ? "images" : "bare"), {});
    ASSERT_TRUE(writer.ok());
    for (int64_t n = 0; n < 40; ++n) {
      std::fill(pixels.begin(), pixels.end(), n % 2 == 0 ? '\0' : '\x7f');
      const std::string_view bytes[] = {pixels};
      const int64_t label[] = {n % 2 + 1};
      builder.AddBytes("image_raw", bytes);
      if (labelled) builder.AddInt64("label", label);
      builder.Finish(record);
      ASSERT_TRUE(writer->Append(record).ok());
    }
    ASSERT_TRUE(writer->Close().ok());
  }
  const std::string images = folder_ / "images", run = folder_ / "run";
  const ProgramRun trained =
      RunProgram("millrace-convnet",
                 "--net=softmax --num_classes=2 --label_offset=1 --epochs=20 --train=" + images +
                     " --test=" + images + " --run_dir=" + run);
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const std::string& input : {images, folder_ / "bare"}) {
    const ProgramRun scored = RunProgram("millrace-predict", "--model=" + run + " " + input);
    ASSERT_EQ(scored.status, 0) << scored.err;
    std::istringstream lines(scored.out);
    int label = 0, n = 0;
    for (double p = 0; lines >> label >> p; ++n) EXPECT_EQ(label, n % 2 + 1);
    EXPECT_EQ(n, 40);
  }
}

TEST_F(ConvnetTest, TrainsAndWritesARunFolder) {
  const ProgramRun run = RunProgram(
      "millrace-convnet", Data() + "--net=lenet --epochs=2 --profile --run_dir=" + folder_ / "run");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("net       lenet, 61,706 parameters, input 1x28x28, 10 classes"),
            std::string::npos)
      << run.out;
  const std::string csv = test::ReadFile(folder_ / "run/metrics.csv");
  EXPECT_TRUE(csv.starts_with(
      "step,examples,epoch,seconds,loss,accuracy,logloss,train_accuracy,examples_per_s\n"))
      << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3) << csv;
  const std::regex accuracy("\"accuracy\": ?(0\\.9|1)");
  EXPECT_TRUE(std::regex_search(test::ReadFile(folder_ / "run/run.json"), accuracy));
  const std::string trace = test::ReadFile(folder_ / "run/trace-worker-0.json");
  for (const char* span :
       {"\"step\"", "\"conv1 forward\"", "\"conv2 backward data\"", "\"fc5 backward weights\"",
        "\"update\"", "\"input_wait\"", "\"evaluate\""}) {
    EXPECT_NE(trace.find(span), std::string::npos) << span;
  }
  EXPECT_TRUE(fs::exists(folder_ / "run/model/model.bin"));
  EXPECT_NE(test::ReadFile(folder_ / "run/graph.dot").find("conv2"), std::string::npos);
}

// A rate that is much too high: the evaluations go up and down.
TEST_F(ConvnetTest, KeepsTheBestModel) {
  const std::string flags = Data() + "--net=softmax --optimizer=sgd --learning_rate=5 " +
                            "--schedule=constant --batch_size=50 --eval_every=100 --epochs=2 ";
  const std::string run = folder_ / "run", until = folder_ / "until";
  const ProgramRun best =
      RunProgram("millrace-convnet", flags + "--save_best=accuracy --run_dir=" + run);
  ASSERT_EQ(best.status, 0) << best.err;
  EXPECT_NE(best.out.find("best      " + run + "/model/best.bin (accuracy "), std::string::npos)
      << best.out;
  const std::string json = test::ReadFile(run + "/run.json");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(json, found, std::regex("\"best\":.*\"examples\":([0-9]+)")));
  ASSERT_EQ(RunProgram("millrace-convnet",
                       flags + "--max_examples=" + found[1].str() + " --run_dir=" + until)
                .status,
            0);
  EXPECT_EQ(test::ReadFile(run + "/model/best.bin"), test::ReadFile(until + "/model/model.bin"));
  EXPECT_FALSE(fs::exists(until + "/model/best.bin"));
  const ProgramRun no_folder = RunProgram("millrace-convnet", flags + "--save_best=accuracy");
  EXPECT_NE(no_folder.err.find("--save_best has no effect without --run_dir"), std::string::npos)
      << no_folder.err;
}

TEST_F(ConvnetTest, ResumeKeepsAFinishedRun) {
  const std::string command = Data() + "--net=softmax --run_dir=" + folder_ / "run";
  ASSERT_EQ(RunProgram("millrace-convnet", command).status, 0);
  const std::string model = test::ReadFile(folder_ / "run/model/model.bin");
  const ProgramRun again = RunProgram("millrace-convnet", command + " --seed=7 --resume");
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("nothing to resume"), std::string::npos) << again.err;
  EXPECT_TRUE(test::ReadFile(folder_ / "run/model/model.bin") == model);
}

TEST_F(ConvnetTest, TrainsOnRecordsOfTheSameImagesToTheSameModel) {
  const ProgramRun converted = RunProgram(
      "millrace-records", "convert --format=mnist --shards=1 --out=" + folder_ / "t" + " " +
                              *data_ / "train-images-ubyte" + " " + *data_ / "train-labels-ubyte");
  ASSERT_EQ(converted.status, 0) << converted.err;
  const std::string rest = " --net=softmax --threads=1 --model_out=";
  const ProgramRun idx = RunProgram("millrace-convnet", Data() + rest + folder_ / "a");
  const ProgramRun records =
      RunProgram("millrace-convnet", "--train='" + folder_ / "t/*" + "'" + rest + folder_ / "b");
  ASSERT_EQ(idx.status, 0) << idx.err;
  ASSERT_EQ(records.status, 0) << records.err;
  EXPECT_TRUE(test::ReadFile(folder_ / "a") == test::ReadFile(folder_ / "b"));
}

TEST_F(ConvnetTest, RunsOnSyntheticImages) {
  const ProgramRun run = RunProgram(
      "millrace-convnet", "--net=lenet --data=synthetic --synthetic_images=500 --batch_size=50");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("500 training and 50 test images, synthetic"), std::string::npos);
}

TEST_F(ConvnetTest, DrawsTheGraphWithoutData) {
  const ProgramRun run = RunProgram("millrace-convnet", "--net=alexnet --graph=-");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("fc6\\nfc -> 4096\\n37752832 parameters"), std::string::npos) << run.out;
}

TEST_F(ConvnetTest, WrongFlagsHaveAdvice) {
  const std::pair<const char*, const char*> cases[] = {
      {"--net=vgg --data=synthetic", "value 'vgg'; expected softmax, lenet or alexnet"},
      {"--net=lenet", "--train is missing: expected the training images, or --data=synthetic"},
      {"--mode=cloud --data=synthetic", "value 'cloud'; expected single, sync, async or ssp"},
      {"--mode=sync --data=synthetic", "needs servers: expected --job_name=worker"},
      {"--data=synthetic --train=x", "--train has no effect: it belongs to --data=files"},
      {"--data=synthetic --optimizer=ftrl", "expected sgd, momentum or adam"},
      {"--data=synthetic --net=alexnet --resize=100", "expected at least the net's input"},
      {"--data=synthetic --mean=1,2", "--mean=1,2: expected 1"},
      {"--data=synthetic --schedule=cosine", "value 'cosine'; expected linear, steps or"},
      {"--data=synthetic --schedule=steps", "--schedule=steps: expected --decay_every with it"},
  };
  for (const auto& [flags, message] : cases) {
    const ProgramRun run = RunProgram("millrace-convnet", flags);
    EXPECT_EQ(run.status, 2) << flags;
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
  }
}

TEST_F(ConvnetTest, StartsFromARunAndRejectsOtherFiles) {
  const std::string flags = "--net=softmax --data=synthetic --synthetic_images=100 ";
  ASSERT_EQ(
      RunProgram("millrace-convnet", flags + "--checkpoint_every=64 --run_dir=" + folder_ / "run")
          .status,
      0);
  EXPECT_EQ(RunProgram("millrace-convnet", flags + "--model_in=" + folder_ / "run").status, 0);
  std::string checkpoint;
  for (const auto& entry : fs::directory_iterator(folder_ / "run/checkpoints")) {
    checkpoint = entry.path();
  }
  const ProgramRun other = RunProgram("millrace-convnet", flags + "--model_in=" + checkpoint);
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("expected the model of a net, found a checkpoint of a net"),
            std::string::npos)
      << other.err;
}

TEST_F(ConvnetTest, ThreeSyncWorkersAreDeterministic) {
  const auto train = [&](const std::string& name, const std::string& mode) {
    return RunProgram("millrace-launch",
                      "--num_ps=2 --num_workers=3 -- " MILLRACE_BIN_DIR "/millrace-convnet " +
                          Data() + "--net=lenet --epochs=3 --batch_size=16 --threads=1 --mode=" +
                          mode + " --run_dir=" + folder_ / name);
  };
  for (const char* name : {"a", "b"}) {
    const ProgramRun run = train(name, "sync");
    ASSERT_EQ(run.status, 0) << run.out << run.err;
    EXPECT_NE(run.out.find("effective batch 48"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("to 0 in 63 steps"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("wire      sent     predicted"), std::string::npos) << run.out;
    EXPECT_EQ(run.out.find("differ from the prediction"), std::string::npos) << run.out;
  }
  EXPECT_TRUE(test::ReadFile(folder_ / "a/model/model.bin") ==
              test::ReadFile(folder_ / "b/model/model.bin"));
  const std::string csv = test::ReadFile(folder_ / "a/metrics.csv");
  EXPECT_NE(csv.find("\n63,2997,"), std::string::npos) << csv;
  EXPECT_EQ(train("c", "async").status, 0);
}

TEST_F(ConvnetTest, ReadsEveryKindOfImageAndNamesCorruptRecords) {
  SKIP_WITHOUT_SHARED_DATA();
  const auto train = [&](const std::string& name, const std::vector<std::string>& images) {
    for (const std::string& image : images) {
      fs::create_directories(folder_ / (name + "/class"));
      fs::copy_file(MILLRACE_SHARED_DATA "/images/" + image, folder_ / (name + "/class/" + image));
    }
    const std::string records = folder_ / (name + "-records");
    const ProgramRun converted =
        RunProgram("millrace-records",
                   "convert --format=images --shards=1 --out=" + records + " " + folder_ / name);
    EXPECT_EQ(converted.status, 0) << converted.err;
    return RunProgram("millrace-convnet", "--net=lenet --train='" + records + "/*.tfrecord'");
  };
  const ProgramRun all =
      train("all", {"grace_hopper.jpg", "jpeg_merge_test1_cmyk.jpg", "lena_gray.png",
                    "lena_palette.png", "lena_palette_trns.png", "lena_rgba.png"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_NE(all.out.find("trained   6 images"), std::string::npos) << all.out;
  const ProgramRun corrupt = train("corrupt", {"corrupt34_2.jpg", "lena_gray.png"});
  EXPECT_EQ(corrupt.status, 1);
  EXPECT_NE(corrupt.err.find("corrupt-records/train-00000-of-00001.tfrecord: record at offset 0: "
                             "JPEG: Premature end of JPEG file"),
            std::string::npos)
      << corrupt.err;
}

TEST_F(ConvnetTest, IdxFilesAreDetectedAndASingleOneIsAnError) {
  fs::copy_file(*data_ / "train-images-ubyte", folder_ / "x");
  fs::copy_file(*data_ / "train-labels-ubyte", folder_ / "y");
  const std::string flags = "--net=softmax --max_examples=100 --train=";
  EXPECT_EQ(RunProgram("millrace-convnet", flags + (folder_ / "x") + "," + (folder_ / "y")).status,
            0);
  const ProgramRun alone = RunProgram("millrace-convnet", flags + (folder_ / "x"));
  EXPECT_EQ(alone.status, 1);
  EXPECT_NE(alone.err.find("train=IMAGES,LABELS"), std::string::npos) << alone.err;
}

TEST_F(ConvnetTest, TruncatedIdxFileIsNamed) {
  const std::string whole = test::ReadFile(*data_ / "train-images-ubyte");
  test::WriteFile(folder_ / "short-ubyte", whole.substr(0, whole.size() - 100));
  const ProgramRun run =
      RunProgram("millrace-convnet", "--net=softmax --train=" + folder_ / "short-ubyte" + "," +
                                         *data_ / "train-labels-ubyte");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("short-ubyte"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace millrace::convnet
