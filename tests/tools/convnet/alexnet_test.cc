// SPDX-License-Identifier: Apache-2.0
// AlexNet as people run it, on pictures from files and on servers.

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/program.h"

namespace millrace::convnet {
namespace {

using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

// A column of a run's metrics.csv.
std::vector<double> Column(const std::string& csv, const std::string& name) {
  std::istringstream lines(csv);
  std::string line, word;
  std::getline(lines, line);
  std::istringstream head(line);
  size_t column = 0;
  while (std::getline(head, word, ',') && word != name) ++column;
  std::vector<double> values;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    for (size_t i = 0; i <= column; ++i) std::getline(words, word, ',');
    values.push_back(std::strtod(word.c_str(), nullptr));
  }
  return values;
}

class AlexNetTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(AlexNetTest, LearnsPicturesFromRecords) {
  const ProgramRun made = RunShell(MILLRACE_SOURCE_DIR "/tools/make_images.py " +
                                   folder_ / "images" + " --classes=2 --images=16");
  ASSERT_EQ(made.status, 0) << made.err;
  const ProgramRun converted = RunProgram(
      "millrace-records",
      "convert --format=images --shards=2 --out=" + folder_ / "records" + " " + folder_ / "images");
  ASSERT_EQ(converted.status, 0) << converted.err;
  const std::string records = folder_ / "records/train-*";
  const ProgramRun run =
      RunProgram("millrace-convnet",
                 "--net=alexnet --num_classes=2 --mean=123.7,116.8,103.9 --batch_size=8 "
                 "--threads=2 --learning_rate=0.003 --epochs=12 --eval_every=64 --train='" +
                     records + "' --test='" + records + "' --run_dir=" + folder_ / "run");
  ASSERT_EQ(run.status, 0) << run.err;
  const std::string csv = test::ReadFile(folder_ / "run/metrics.csv");
  const std::vector<double> losses = Column(csv, "loss");
  ASSERT_EQ(losses.size(), 6u) << csv;
  EXPECT_LT(losses.back(), losses.front() / 2) << csv;
  EXPECT_GT(Column(csv, "accuracy").back(), 0.9) << csv;  // of the same pictures
  // The model knows the mean and the size of its pictures.
  const ProgramRun scored =
      RunProgram("millrace-predict", "--model=" + folder_ / "run" + " --metrics '" + records + "'");
  ASSERT_EQ(scored.status, 0) << scored.err;
  char accuracy[64];
  std::snprintf(accuracy, sizeof accuracy, "accuracy    %.6f\n", Column(csv, "accuracy").back());
  EXPECT_NE(scored.err.find(accuracy), std::string::npos) << scored.err;
}

TEST_F(AlexNetTest, TwoSyncWorkersAreDeterministic) {
  for (const char* name : {"a", "b"}) {
    const ProgramRun run =
        RunProgram("millrace-launch",
                   "--num_ps=2 --num_workers=2 -- " MILLRACE_BIN_DIR
                   "/millrace-convnet --mode=sync --net=alexnet --num_classes=4 --data=synthetic "
                   "--synthetic_images=16 --batch_size=4 --threads=1 --run_dir=" +
                       folder_ / name);
    ASSERT_EQ(run.status, 0) << run.out << run.err;
  }
  const std::string model = test::ReadFile(folder_ / "a/model/model.bin");
  EXPECT_GT(model.size(), 200u << 20);
  EXPECT_TRUE(model == test::ReadFile(folder_ / "b/model/model.bin"));
}

}  // namespace
}  // namespace millrace::convnet
