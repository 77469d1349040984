// SPDX-License-Identifier: Apache-2.0
// millrace-lr as people run it: real processes, real files, real kills.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "io/base/random.h"
#include "io/example/example_encoder.h"
#include "tests/support/frame.h"
#include "tests/support/program.h"

namespace millrace::lr {
namespace {

using test::Program;
using test::ProgramRun;
using test::RunProgram;
using test::RunShell;

namespace fs = std::filesystem;

class LrTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = std::make_unique<test::TemporaryFolder>();
    const ProgramRun made =
        RunProgram("millrace-records",
                   "synth --rows=120000 --test_rows=5000 --num_features=100000 --shards=4 --out=" +
                       data_->path());
    ASSERT_EQ(made.status, 0) << made.err;
  }
  static void TearDownTestSuite() { data_.reset(); }

  static std::string Data() {
    return "--train='" + *data_ / "train-*" + "' --test='" + *data_ / "test-*" +
           "' --num_features=100000 ";
  }

  static std::unique_ptr<test::TemporaryFolder> data_;
  test::TemporaryFolder folder_;
};
std::unique_ptr<test::TemporaryFolder> LrTest::data_;

std::vector<std::string> Columns(const std::string& csv, size_t first, size_t last) {
  std::vector<std::string> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    std::string row;
    size_t column = 0;
    for (std::string cell; std::getline(cells, cell, ','); ++column) {
      if (column == 3 || column < first || column > last) continue;  // 3: seconds
      row += cell + ",";
    }
    rows.push_back(row);
  }
  return rows;
}

// `"best":{...}` of run.json; empty without one.
std::string BestOf(const std::string& run) {
  const std::string json = test::ReadFile(run + "/run.json");
  const size_t at = json.find("\"best\":{");
  return at == json.npos ? "" : json.substr(at, json.find(",\"warnings\"") - at);
}

// The value behind `"step":` in BestOf.
uint64_t BestStepOf(const std::string& run) {
  const std::string best = BestOf(run);
  return best.empty() ? 0 : std::stoull(best.substr(best.find("\"step\":") + 7));
}

TEST_F(LrTest, WritesARunFolder) {
  const ProgramRun run = RunProgram(
      "millrace-lr", Data() + "--eval_every=20000 --run_dir=" + folder_ / "run" + " --profile");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("logloss"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("120,000 examples in 1,200 steps"), std::string::npos) << run.out;
  const std::string csv = test::ReadFile(folder_ / "run/metrics.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7) << csv;
  EXPECT_TRUE(fs::exists(folder_ / "run/metrics.jsonl"));
  EXPECT_TRUE(fs::exists(folder_ / "run/model/model.bin"));
  EXPECT_NE(test::ReadFile(folder_ / "run/run.json").find("\"finished\""), std::string::npos);
  EXPECT_NE(test::ReadFile(folder_ / "run/trace-worker-0.json").find("loss_residuals"),
            std::string::npos);
}

TEST_F(LrTest, EpochColumnCountsPassesFromOneOn) {
  test::WriteFile(folder_ / "rows.svm", "1 1:1\n0 2:1\n1 1:1\n0 3:1\n");
  const ProgramRun run =
      RunProgram("millrace-lr",
                 "--train=" + folder_ / "rows.svm" + " --test=" + folder_ / "rows.svm" +
                     " --batch_size=2 --eval_every=2 " + "--epochs=3 --run_dir=" + folder_ / "run");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(Columns(test::ReadFile(folder_ / "run/metrics.csv"), 1, 2),
            (std::vector<std::string>{"examples,epoch,", "2,1,", "4,1,", "6,2,", "8,2,", "10,3,",
                                      "12,3,"}));
}

// kill -9 at random moments, then resume, several times: the model and the rows are those of an
// uninterrupted run.
TEST_F(LrTest, KilledAndResumedRunEndsWithTheSameModelBitForBit) {
  const std::string common =
      "--eval_every=30000 --checkpoint_every=4000 --epochs=3 --save_best=logloss ";
  for (const std::string optimizer : {"ftrl", "sgd"}) {
    SCOPED_TRACE(optimizer);
    const std::string whole = folder_ / ("whole-" + optimizer),
                      killed = folder_ / ("killed-" + optimizer);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(RunProgram("millrace-lr",
                         Data() + common + "--optimizer=" + optimizer + " --run_dir=" + whole)
                  .status,
              0);
    std::chrono::duration<double> whole_time = std::chrono::steady_clock::now() - begin;
    const std::vector<std::string> words = {std::string(MILLRACE_BIN_DIR) + "/millrace-lr",
                                            "--train=" + (*data_ / "train-*"),
                                            "--test=" + *data_ / "test-*",
                                            "--num_features=100000",
                                            "--eval_every=30000",
                                            "--checkpoint_every=4000",
                                            "--epochs=3",
                                            "--save_best=logloss",
                                            "--optimizer=" + optimizer,
                                            "--run_dir=" + killed,
                                            "--resume"};
    Random random(optimizer == "ftrl" ? 1 : 2);
    int kills = 0, status = -1;
    for (int round = 0; round < 200 && status != 0; ++round) {
      Program run(words, folder_.path(), folder_ / "log");
      // Later rounds are left more time, so that the test ends.
      std::this_thread::sleep_for(whole_time * random.Uniform() * (0.3 + 0.3 * round));
      run.Signal(SIGKILL);
      status = run.Wait();
      kills += status == 128 + SIGKILL;
      ASSERT_TRUE(status == 0 || status == 128 + SIGKILL) << test::ReadFile(folder_ / "log");
      // The machine may have become faster since the time was taken.
      if (status == 0 && kills < 2) {
        fs::remove_all(killed);
        whole_time /= 2;
        status = -1;
      }
    }
    EXPECT_EQ(status, 0) << test::ReadFile(folder_ / "log");
    EXPECT_GE(kills, 2);
    EXPECT_EQ(test::ReadFile(killed + "/model/model.bin"),
              test::ReadFile(whole + "/model/model.bin"));
    EXPECT_EQ(test::ReadFile(killed + "/model/best.bin"),
              test::ReadFile(whole + "/model/best.bin"));
    EXPECT_EQ(BestOf(killed), BestOf(whole));
    EXPECT_EQ(Columns(test::ReadFile(killed + "/metrics.csv"), 0, 12),
              Columns(test::ReadFile(whole + "/metrics.csv"), 0, 12));
  }
}

// Ten epochs of few rows overfit, so the best model is not the last one.
TEST_F(LrTest, EarlyStopKeepsTheBestModelAndTheLast) {
  const std::string flags = "--train=" + *data_ / "train-00000-of-00004.tfrecord" + " --test='" +
                            *data_ / "test-*" +
                            "' --num_features=100000 --optimizer=adagrad --learning_rate=0.1 "
                            "--batch_size=100 --epochs=10 --eval_every=15000 "
                            "--checkpoint_every=15000 ";
  const std::string run = folder_ / "run";
  const ProgramRun early =
      RunProgram("millrace-lr", flags + "--early_stop=logloss:3 --run_dir=" + run);
  ASSERT_EQ(early.status, 0) << early.err;
  const uint64_t best = BestStepOf(run);
  ASSERT_GT(best, 0u) << test::ReadFile(run + "/run.json");
  EXPECT_NE(early.out.find("stopped   early: no better logloss in 3 evaluations"),
            std::string::npos)
      << early.out;
  EXPECT_NE(early.out.find("best      " + run + "/model/best.bin (logloss 0."), std::string::npos);
  EXPECT_NE(early.out.find("warning   the model overfits: since step " + std::to_string(best)),
            std::string::npos)
      << early.out;
  EXPECT_NE(test::ReadFile(run + "/run.json").find("\"warnings\":[\"the model overfits: "),
            std::string::npos);
  EXPECT_NE(test::ReadFile(run + "/model/best.bin"), test::ReadFile(run + "/model/model.bin"));

  // A run that ends there has that model as its last one.
  const std::string until = folder_ / "until";
  ASSERT_EQ(RunProgram("millrace-lr", flags + "--max_examples=" + std::to_string(100 * best) +
                                          " --run_dir=" + until)
                .status,
            0);
  EXPECT_EQ(test::ReadFile(run + "/model/best.bin"), test::ReadFile(until + "/model/model.bin"));
  EXPECT_FALSE(fs::exists(until + "/model/best.bin"));
  EXPECT_EQ(BestOf(until), "");

  // Another run in the folder does not keep this best model.
  ASSERT_EQ(
      RunProgram("millrace-lr", flags + "--max_examples=1000 --overwrite --run_dir=" + run).status,
      0);
  EXPECT_FALSE(fs::exists(run + "/model/best.bin"));
}

TEST_F(LrTest, BestModelThatIsNotThatOfTheRunIsAWarning) {
  const std::string flags =
      Data() + "--eval_every=1000 --checkpoint_every=1000 --run_dir=" + folder_ / "run" +
      " --save_best=logloss --max_examples=";
  ASSERT_EQ(RunProgram("millrace-lr", flags + "3000").status, 0);
  fs::copy_file(folder_ / "run/model/best.bin", folder_ / "later");
  ASSERT_EQ(RunProgram("millrace-lr", flags + "2000 --overwrite").status, 0);
  fs::rename(folder_ / "later", folder_ / "run/model/best.bin");
  const ProgramRun resumed = RunProgram("millrace-lr", flags + "1999 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("/model/best.bin is of step 30, expected step 20: "),
            std::string::npos)
      << resumed.out;
}

TEST_F(LrTest, WarningsAreOnTheConsoleAndInTheRunFolder) {
  test::WriteFile(folder_ / "train", "1 1:1\n1 2:1\n");
  test::WriteFile(folder_ / "test", "1 1:1\n0 700:1 800:1\n0 900:1\n");
  const ProgramRun run =
      RunProgram("millrace-lr", "--format=libsvm --train=" + folder_ / "train" +
                                    " --test=" + folder_ / "test" +
                                    " --num_features=1000 --run_dir=" + folder_ / "run");
  EXPECT_EQ(run.status, 0) << run.err;
  const std::string json = test::ReadFile(folder_ / "run/run.json");
  for (const char* warning :
       {"the training labels are all positive: ",
        "75.0 % of the keys and 75.0 % of the entries of the first 3 test examples have no"}) {
    EXPECT_NE(run.out.find(std::string("\nwarning   ") + warning), std::string::npos) << run.out;
    EXPECT_NE(json.find(std::string("\"") + warning), std::string::npos) << json;
  }
}

TEST_F(LrTest, ExtremeUnitsTrainLikeOthersOrAreAWarning) {
  for (const auto& [unit, warning] : std::vector<std::pair<std::string, std::string>>{
           {"e0", ""},
           {"e25", ""},
           {"e-25", ""},
           {"e37", "values of the training data are beyond 1.3e+30"},
           {"e-40", "values of the training data are closer to 0 than 7.9e-31"}}) {
    SCOPED_TRACE(unit);
    std::string rows;
    for (int i = 0; i < 2000; ++i) {
      const int a = i * 7 % 19 - 9, noise = i * 31 % 17;
      rows += (2 * a + noise > 8 ? "1 0:" : "0 0:") + std::to_string(a) + unit + " " +
              std::to_string(1 + noise) + ":1\n";
    }
    test::WriteFile(folder_ / "rows", rows);
    const ProgramRun run = RunProgram(
        "millrace-lr", "--format=libsvm --num_features=20 --train=" + (folder_ / "rows") +
                           " --test=" + (folder_ / "rows") + " --model_out=" + (folder_ / "model"));
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string text = run.out + run.err;
    if (!warning.empty()) {
      EXPECT_NE(text.find(warning), std::string::npos) << text;
    } else {
      EXPECT_EQ(text.find("warning"), std::string::npos) << text;
    }
  }
}

TEST_F(LrTest, CtrlCEndsCleanlyWithACheckpoint) {
  const std::vector<std::string> words = {std::string(MILLRACE_BIN_DIR) + "/millrace-lr",
                                          "--train=" + (*data_ / "train-*"),
                                          "--test=" + *data_ / "test-*",
                                          "--eval_every=1000",
                                          "--num_features=100000",
                                          "--epochs=100000",
                                          "--run_dir=" + folder_ / "run"};
  Program run(words, folder_.path(), folder_ / "log");
  ASSERT_TRUE(run.WaitForOutput(" 1000  0.")) << run.output();  // the first evaluation is done
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  const std::string log = test::ReadFile(folder_ / "log");
  EXPECT_NE(log.find("--resume"), std::string::npos) << log;
  EXPECT_FALSE(fs::is_empty(folder_ / "run/checkpoints"));
  EXPECT_NE(test::ReadFile(folder_ / "run/run.json").find("\"interrupted\""), std::string::npos);
}

// A FIFO without a writer blocks its reader forever; neither Ctrl-C nor an error elsewhere
// may wait for it.
TEST_F(LrTest, BlockedInputDelaysNeitherCtrlCNorErrors) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::string program = std::string(MILLRACE_BIN_DIR) + "/millrace-lr";
  Program run({program, "--format=tfrecord", "--train=" + folder_ / "pipe", "--num_features=10"},
              folder_.path(), folder_ / "log");
  ASSERT_TRUE(run.WaitForOutput("machine")) << run.output();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  test::WriteFile(folder_ / "bad", "this is no record, and long enough to be seen as none");
  const ProgramRun failed =
      RunProgram("millrace-lr", "--format=tfrecord --num_features=10 --train=" + folder_ / "bad" +
                                    "," + folder_ / "pipe");
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.err.find("length CRC"), std::string::npos) << failed.err;
}

TEST_F(LrTest, WrongFlagsAreErrorsBeforeAnyWork) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  const std::pair<std::string, std::string> cases[] = {
      {"", "--train is missing"},
      {"--train=/nowhere --num_features=10", "/nowhere: cannot open"},
      {"--train=" + data_->path() + "/", "found a directory; its files are '" + *data_ / "*'"},
      {"--train " + *data_ / "train-*", "several files go into quotes"},
      {"--train='/nowhere/*' --num_features=10", "no file matches"},
      {Data() + "--optimizer=magic", "expected sgd, adagrad, ftrl or adam"},
      {Data() + "--optimizer=sgd --l1=1", "--l1 has no effect: it belongs to --optimizer=ftrl"},
      {Data() + "--normalize=maybe", "expected auto, on or off"},
      {Data() + "--learning_rate=0", "expected a number above 0, or auto"},
      {Data() + "--learning_rat=1", "did you mean --learning_rate?"},
      {Data() + "--learning_rate=fast", "learning_rate"},
      {Data() + "--mode=sync", "needs servers"},
      {Data() + "--mode=snc --job_name=worker", "expected single, sync, async or ssp"},
      {Data() + "--job_name=worker", "add --mode=sync or --mode=async"},
      {Data() + "--mode=sync --job_name=worker", "expected the servers"},
      {Data() + "--mode=sync --job_name=worker --ps_hosts=a", "expected HOST:PORT, found 'a'"},
      {Data() + "--mode=sync --job_name=worker --ps_hosts=a:1 --worker_hosts=a --task_index=1",
       "expected below the 1 workers"},
      {Data() + "--early_stop=speed:3", "early_stop"},
      {Data() + "--early_stop=auc:1 --epochs=20", "--early_stop has no effect without --"},
      {Data() + "--save_best=auc", "--save_best has no effect without --eval_every"},
      {Data() + "--save_best=auc --eval_every=100", "--save_best has no effect without --run_dir"},
      {Data() + "--save_best=auk --eval_every=100 --run_dir=" + folder_ / "r",
       "flag --save_best has the value 'auk'; expected auc,"},
      {Data() + "--save_best=auc --early_stop=ne:2 --eval_every=100 --run_dir=" + folder_ / "r",
       "expected the same metric"},
      {Data() + "--resume", "--resume has no effect without --run_dir"},
      {Data() + "--run_dir=/proc/run", "/proc/run"},
      {Data() + "--kernel=gpu", "expected auto, native, mkl or plain"},
      {Data() + "--min_after_dequeue=30000", "min_after_dequeue"},
      {Data() + "--model_in=/nowhere", "/nowhere"},
      {Data() + "--model_out=/nowhere/model", "cannot write to the folder /nowhere"},
      {Data() + "--model_out=" + folder_.path(), "expected a file, found a folder"},
      {Data() + "--test=/nowhere", "/nowhere: cannot open"},
      {"--format=tfrecord --train=" + folder_ / "pipe" + " --num_features=10 --epochs=2",
       "can be read once only"},
  };
  for (const auto& [flags, message] : cases) {
    const ProgramRun run = RunProgram("millrace-lr", flags);
    EXPECT_NE(run.status, 0) << flags;
    EXPECT_NE(run.err.find(message), std::string::npos) << flags << "\n" << run.err;
    EXPECT_EQ(run.out, "") << flags;
  }
}

TEST_F(LrTest, MissingFeatureIsAnErrorThatListsTheFeatures) {
  test::WriteFile(folder_ / "rows.vw", "1 |f 1:2 2\n-1 2.5 |f 2 3\n");
  const std::string file = folder_ / "data/train-00000-of-00001.tfrecord";
  ASSERT_EQ(RunProgram("millrace-records", "convert --novw_hash_all --shards=1 --out=" +
                                               folder_ / "data " + folder_ / "rows.vw")
                .status,
            0);
  const std::string train = "--num_features=4 --train=" + file + " ";
  // The test set's rows may all weigh 1.
  EXPECT_EQ(RunProgram("millrace-lr", "--num_features=100000 --weight_feature=weight --train=" +
                                          file + " --test='" + *data_ / "test-*'")
                .status,
            0);
  for (const std::string flag : {"value", "weight", "label", "index"}) {
    const ProgramRun run = RunProgram("millrace-lr", train + "--" + flag + "_feature=typo");
    EXPECT_NE(run.status, 0) << flag;
    for (const std::string& part :
         {file + ": offset 0: " + flag + " feature 'typo': expected ", std::string("'index' (2 "),
          std::string("'label' (1 int64 value), 'value' (2 float values)")}) {
      EXPECT_NE(run.err.find(part), std::string::npos) << flag << "\n" << run.err;
    }
  }
}

TEST_F(LrTest, FileOfAnotherFormatIsNamedWithTheFlagThatReadsIt) {
  test::WriteFile(folder_ / "a9a", "# a comment\n-1 3:1 11:1\n+1 5:1\n");
  const ProgramRun text = RunProgram("millrace-lr", "--format=tfrecord --train=" + folder_ / "a9a");
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find("looks like libsvm text: read it with format=libsvm"), std::string::npos)
      << text.err;
  EXPECT_EQ(RunProgram("millrace-lr", "--format=libsvm --train=" + folder_ / "a9a").status, 0);
  const ProgramRun vw = RunProgram("millrace-lr", "--format=vw --train=" + folder_ / "a9a");
  EXPECT_EQ(vw.status, 1);
  const ProgramRun records = RunProgram("millrace-lr", Data() + "--format=libsvm");
  EXPECT_EQ(records.status, 2);
  EXPECT_NE(records.err.find("format=tfrecord"), std::string::npos) << records.err;
}

TEST_F(LrTest, BadTextIsNamedByItsLine) {
  test::WriteFile(folder_ / "a.libsvm", "1 1:1\n\n# a comment\n0 2:1\n1 3:x\n");
  test::WriteFile(folder_ / "b.vw", "1 |f 1\n-1 |f one two\n");
  ASSERT_EQ(RunShell("gzip -k " + folder_ / "a.libsvm").status, 0);
  const std::tuple<std::string, std::string> cases[] = {
      {"a.libsvm --num_features=9", "a.libsvm:5: offset 25: column 5: expected"},
      {"a.libsvm.gz --num_features=9", "a.libsvm.gz:5: offset 25: column 5: expected"},
      {"a.libsvm --num_features=2", "a.libsvm:4: offset 19: index: expected 0 to below "},
      {"b.vw --novw_hash_all --num_features=1024", "b.vw:2: offset 7: index: expected 0 to below"},
      {"b.vw --num_features=1024", ": hash_bits=10"},
      {"b.vw --num_features=9 --hash_bits=18", "raise num_features to 262144"},
  };
  for (const auto& [flags, message] : cases) {
    const ProgramRun run =
        RunProgram("millrace-lr", "--shuffle_capacity=0 --train=" + folder_ / flags);
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.err.find(message), std::string::npos) << run.err;
  }
  const ProgramRun skipped =
      RunProgram("millrace-lr", "--on_corrupt=skip --train=" + folder_ / "a.libsvm");
  EXPECT_NE(skipped.out.find("a.libsvm:5: offset 25: column 5"), std::string::npos) << skipped.out;
}

TEST_F(LrTest, TooFewFeaturesNameTheFileOffsetAndIndex) {
  const ProgramRun run =
      RunProgram("millrace-lr", "--train='" + *data_ / "train-*" + "' --num_features=5000");
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("train-0000"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("below num_features = 5000"), std::string::npos) << run.err;
}

// convert writes a weight only for rows whose weight is not 1.
// Numbers of two namespaces are different features.
TEST_F(LrTest, VwNamespacesDoNotCollide) {
  std::string text;
  for (int row = 0; row < 100; ++row) text += "1 |user 7 |ad 9\n-1 |user 9 |ad 7\n";
  test::WriteFile(folder_ / "rows.vw", text);
  const std::string flags = "--batch_size=1 --run_dir=" + folder_ / "run" +
                            " --overwrite --train=" + folder_ / "rows.vw" +
                            " --test=" + folder_ / "rows.vw ";
  const auto logloss = [&](const std::string& more) {
    const ProgramRun run = RunProgram("millrace-lr", flags + more);
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string json = test::ReadFile(folder_ / "run/metrics.jsonl");
    return std::stod(json.substr(json.find("\"logloss\":") + 10));
  };
  EXPECT_LT(logloss(""), 0.4);
  EXPECT_LT(logloss("--hash_bits=18 --num_features=262144"), 0.4);
  EXPECT_GT(logloss("--novw_hash_all"), 0.65);
}

TEST_F(LrTest, FormatIsDetectedByContent) {
  test::WriteFile(folder_ / "rows", "1 |f a\n-1 |f b\n");
  EXPECT_EQ(RunProgram("millrace-lr", "--train=" + folder_ / "rows").status, 0);
  test::WriteFile(folder_ / "rows", "1 1:1\n0 2:1\n");
  EXPECT_EQ(RunProgram("millrace-lr", "--train=" + folder_ / "rows").status, 0);
  const ProgramRun piped = RunShell("echo '1 1:1' | " MILLRACE_BIN_DIR "/millrace-lr --train=-");
  EXPECT_EQ(piped.status, 0) << piped.err;
}

TEST_F(LrTest, ConvertedWeightsTrainLikeTheTextTheyCameFrom) {
  test::WriteFile(folder_ / "rows.vw", "1 |f 1 2\n-1 2.5 |f 2 3\n1 |f 3:2\n-1 3 |f 1:0.5\n");
  const std::string out = " --out=" + (folder_ / "data");
  ASSERT_EQ(RunProgram("millrace-records",
                       "convert --novw_hash_all --shards=1" + out + " " + folder_ / "rows.vw")
                .status,
            0);
  // Only the headers differ: each names its input.
  const auto weights = [&](const char* model) {
    const std::string text = test::ReadFile(folder_ / model);
    return text.substr(text.find("\n1\t"));
  };
  for (const std::string batch_size : {"1", "100"}) {
    for (const std::string optimizer : {"sgd", "adagrad", "ftrl", "adam"}) {
      SCOPED_TRACE(optimizer + " " + batch_size);
      const std::string flags =
          " --num_features=4 --epochs=3 --model_format=text --optimizer=" + optimizer +
          " --batch_size=" + batch_size + " --model_out=";
      const ProgramRun text =
          RunProgram("millrace-lr",
                     "--novw_hash_all --train=" + folder_ / "rows.vw" + flags + (folder_ / "a"));
      ASSERT_EQ(text.status, 0) << text.err;
      const std::string train = "--train='" + folder_ / "data/train-*" + "'";
      const ProgramRun records = RunProgram("millrace-lr", train + flags + (folder_ / "b"));
      ASSERT_EQ(records.status, 0) << records.err;
      EXPECT_EQ(weights("a"), weights("b"));
      const ProgramRun unweighted =
          RunProgram("millrace-lr", "--weight_feature= " + train + flags + (folder_ / "c"));
      ASSERT_EQ(unweighted.status, 0) << unweighted.err;
      EXPECT_NE(weights("a"), weights("c"));
    }
  }
}

TEST_F(LrTest, APositiveLabelMakesTwoClassesOfMany) {
  test::WriteFile(folder_ / "many.libsvm", "3 1:1\n2 2:1\n3 1:1 3:2\n-1 2:1\n0.5 3:1\n");
  test::WriteFile(folder_ / "two.libsvm", "1 1:1\n0 2:1\n1 1:1 3:2\n0 2:1\n0 3:1\n");
  const std::string flags = "--num_features=4 --epochs=3 --batch_size=2 --learning_rate=0.1 ";
  const auto weights = [&](const std::string& rest) {
    const std::string out = folder_ / "model.txt";
    const ProgramRun run =
        RunProgram("millrace-lr", flags + "--model_format=text --model_out=" + out + " " + rest);
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string text = test::ReadFile(out);
    return text.substr(text.find("\n1\t"));
  };
  EXPECT_EQ(weights("--positive_label=3 --train=" + folder_ / "many.libsvm"),
            weights("--train=" + folder_ / "two.libsvm"));
  const ProgramRun no_label =
      RunProgram("millrace-lr", flags + "--train=" + folder_ / "many.libsvm");
  EXPECT_NE(no_label.status, 0);
  EXPECT_NE(no_label.err.find("the option positive_label makes two classes of many"),
            std::string::npos)
      << no_label.err;
  // The model knows its labels.
  const std::string model = folder_ / "model.bin";
  ASSERT_EQ(RunProgram("millrace-lr", "--num_features=4 --positive_label=3 --train=" +
                                          folder_ / "many.libsvm" + " --model_out=" + model)
                .status,
            0);
  const ProgramRun metrics =
      RunProgram("millrace-predict",
                 "--metrics --out=/dev/null --model=" + model + " " + folder_ / "many.libsvm");
  EXPECT_EQ(metrics.status, 0) << metrics.err;
  EXPECT_NE(metrics.err.find("examples    5"), std::string::npos) << metrics.err;
}

TEST_F(LrTest, APositiveLabelOfTfRecords) {
  // Of one byte, of several, and a float.
  for (const float positive : {7.0f, 300.0f, 0.5f}) {
    SCOPED_TRACE(positive);
    std::string many, two;
    for (int64_t key = 1; key < 4; ++key) {
      const int64_t label = key % 2;
      const float named = label == 1 ? positive : 2;
      const auto whole = static_cast<int64_t>(named);
      for (std::string* records : {&many, &two}) {
        io::ExampleBuilder builder;
        builder.AddInt64("index", {&key, 1});
        if (records == &two) {
          builder.AddInt64("label", {&label, 1});
        } else if (positive == 0.5f) {
          builder.AddFloat("label", {&named, 1});
        } else {
          builder.AddInt64("label", {&whole, 1});
        }
        std::string example;
        builder.Finish(example);
        *records += test::Framed(example);
      }
    }
    test::WriteFile(folder_ / "many", many);
    test::WriteFile(folder_ / "two", two);
    std::string models[2];
    for (const std::string file : {"many", "two"}) {
      const std::string out = folder_ / file + ".txt";
      const std::string label =
          file == "two" ? "" : " --positive_label=" + std::to_string(positive);
      const ProgramRun run =
          RunProgram("millrace-lr",
                     "--num_features=4 --model_format=text --learning_rate=0.1 --model_out=" + out +
                         label + " --train=" + folder_ / file);
      ASSERT_EQ(run.status, 0) << run.err;
      const std::string text = test::ReadFile(out);
      models[file == "two"] = text.substr(text.find("\n1\t"));
    }
    EXPECT_EQ(models[0], models[1]);
  }
}

TEST_F(LrTest, UnknownKeysOfTestFilesAreIgnoredOrAnError) {
  test::WriteFile(folder_ / "train.libsvm", "1 1:1\n0 2:1\n");
  test::WriteFile(folder_ / "test.libsvm", "1 1:1\n0 2:1 7:1\n");
  const std::string flags =
      "--num_features=4 --train=" + folder_ / "train.libsvm" + " --test=" + folder_ / "test.libsvm";
  EXPECT_EQ(RunProgram("millrace-lr", flags).status, 0);
  const ProgramRun run = RunProgram("millrace-lr", "--unknown_key=error " + flags);
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find("test.libsvm:2: offset 6: index: expected 0 to below num_features = 4, "
                         "found 7"),
            std::string::npos)
      << run.err;
}

TEST_F(LrTest, InterceptIsOnUnlessItIsTurnedOff) {
  // Every format, and the rate of positives of rows without features.
  test::WriteFile(folder_ / "rows.vw", "1 |f\n1 |f\n1 |f\n-1 |f\n");
  test::WriteFile(folder_ / "rows.svm", "1\n1\n1\n0\n");
  for (const std::string name : {"rows.vw", "rows.svm"}) {
    for (const std::string num_features : {"4", "0"}) {
      const std::string flags = "--train=" + folder_ / name + " --num_features=" + num_features +
                                " --epochs=200 --l1=100 --l2=100 --learning_rate=1 "
                                "--model_format=text --model_out=" +
                                (folder_ / "model");
      ASSERT_EQ(RunProgram("millrace-lr", flags).status, 0);
      const std::string model = test::ReadFile(folder_ / "model");
      const size_t at = model.find("\nintercept\t");
      ASSERT_NE(at, std::string::npos) << model;
      EXPECT_NEAR(std::atof(model.c_str() + at + 11), std::log(3), 0.01) << model;
      const ProgramRun without = RunProgram("millrace-lr", flags + " --nointercept");
      EXPECT_NE(without.out.find(" without intercept, ftrl"), std::string::npos) << without.out;
      EXPECT_EQ(test::ReadFile(folder_ / "model").find("intercept"), std::string::npos);
    }
  }
}

// As in millrace-predict.
TEST_F(LrTest, TestKeysBeyondTheModelCountAsUnknown) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += "1 1:1\n0 2:1\n";
  test::WriteFile(folder_ / "train.libsvm", lines);
  test::WriteFile(folder_ / "test.libsvm", "1 1:1 700:1\n0 2:1\n");
  const ProgramRun run =
      RunProgram("millrace-lr", "--train=" + folder_ / "train.libsvm" +
                                    " --test=" + folder_ / "test.libsvm" + " --num_features=10");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("batches of 20,"), std::string::npos) << run.out;
}

TEST_F(LrTest, ResumeWithoutTheInterceptIsRefused) {
  const std::string flags =
      Data() + "--checkpoint_every=700 --run_dir=" + folder_ / "run" + " --learning_rate=0.05";
  ASSERT_EQ(RunProgram("millrace-lr", flags + " --max_examples=1000").status, 0);
  const ProgramRun run =
      RunProgram("millrace-lr", flags + "1 --max_examples=2000 --resume --nointercept");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("intercept: this run has 0, the checkpoint 1"), std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("--learning_rate=0.051 (was 0.05), --intercept=false (was true), "
                         "--max_examples=2000 (was 1000)"),
            std::string::npos)
      << run.err;
}

TEST_F(LrTest, ExistingRunIsNotOverwrittenByDefault) {
  const std::string flags = Data() + "--max_examples=1000 --run_dir=" + folder_ / "run";
  ASSERT_EQ(RunProgram("millrace-lr", flags).status, 0);
  const std::string model = test::ReadFile(folder_ / "run/model/model.bin");
  const ProgramRun again = RunProgram("millrace-lr", flags + " --seed=2");
  EXPECT_NE(again.status, 0);
  EXPECT_NE(again.err.find("--overwrite"), std::string::npos) << again.err;
  EXPECT_EQ(test::ReadFile(folder_ / "run/model/model.bin"), model);
  EXPECT_EQ(RunProgram("millrace-lr", flags + " --seed=2 --overwrite").status, 0);
  EXPECT_NE(test::ReadFile(folder_ / "run/model/model.bin"), model);
}

TEST_F(LrTest, PortInUseKeepsTheExistingRun) {
  const std::string flags = Data() + "--max_examples=1000 --run_dir=" + folder_ / "run";
  ASSERT_EQ(RunProgram("millrace-lr", flags).status, 0);
  const std::string json = test::ReadFile(folder_ / "run/run.json");
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const ProgramRun run = RunProgram(
      "millrace-lr", flags + " --overwrite --dashboard=" + std::to_string(ntohs(address.sin_port)));
  ::close(taken);
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("--dashboard: cannot listen on "), std::string::npos) << run.err;
  EXPECT_EQ(test::ReadFile(folder_ / "run/run.json"), json);
}

TEST_F(LrTest, ResumeKeepsAFinishedRun) {
  for (const std::string checkpoints : {"0", "700"}) {
    SCOPED_TRACE(checkpoints);
    const std::string flags = Data() + "--max_examples=1000 --checkpoint_every=" + checkpoints +
                              " --run_dir=" + folder_ / ("run" + checkpoints);
    ASSERT_EQ(RunProgram("millrace-lr", flags).status, 0);
    const std::string json = test::ReadFile(folder_ / ("run" + checkpoints + "/run.json"));
    const ProgramRun again = RunProgram("millrace-lr", flags + " --resume --threads=1");
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_NE(again.out.find("finished  already, at step 10:"), std::string::npos) << again.out;
    EXPECT_EQ(test::ReadFile(folder_ / ("run" + checkpoints + "/run.json")), json);
  }
}

TEST_F(LrTest, FinishedRunWithCheckpointsCanContinue) {
  const std::string flags =
      Data() + "--checkpoint_every=700 --run_dir=" + folder_ / "run" + " --max_examples=";
  ASSERT_EQ(RunProgram("millrace-lr", flags + "1000").status, 0);
  const ProgramRun on = RunProgram("millrace-lr", flags + "2000 --resume");
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("trained   2,000 examples in 20 steps"), std::string::npos) << on.out;
}

TEST_F(LrTest, FinishedRunWithoutCheckpointsIsNotResumed) {
  const std::string flags =
      Data() + "--max_examples=1000 --nosave_state --run_dir=" + folder_ / "run";
  ASSERT_EQ(RunProgram("millrace-lr", flags).status, 0);
  const std::string model = test::ReadFile(folder_ / "run/model/model.bin");
  const ProgramRun again = RunProgram("millrace-lr", flags + " --resume --optimizer=sgd");
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("nothing to resume; changed since: --optimizer=sgd (was ftrl);"),
            std::string::npos)
      << again.err;
  EXPECT_EQ(test::ReadFile(folder_ / "run/model/model.bin"), model);
}

TEST_F(LrTest, ResumeWithOtherFlagsNamesThem) {
  const std::string flags = Data() + "--checkpoint_every=700 --run_dir=" + folder_ / "run";
  ASSERT_EQ(RunProgram("millrace-lr", flags + " --max_examples=1000").status, 0);
  const auto error = [&](const std::string& more) {
    const ProgramRun run = RunProgram("millrace-lr", flags + " --resume " + more);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  const std::string seed = error("--seed=2");
  EXPECT_NE(seed.find("data: this run has seed=2, the checkpoint seed=1; a resumed run needs the "
                      "options that it started with; changed since: no --max_examples (was 1000), "
                      "--seed=2 (was 1)\n"),
            std::string::npos)
      << seed;
  const std::string l2 = error("--l2=0.05");
  EXPECT_NE(l2.find("; changed since: --l2=0.05 (was not set), no --max_examples (was 1000)\n"),
            std::string::npos)
      << l2;
}

TEST_F(LrTest, WarnsIfNoModelIsWritten) {
  const ProgramRun run = RunProgram("millrace-lr", Data() + "--max_examples=100");
  EXPECT_NE(run.out.find("trained   100 examples in 1 step,"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("no model was kept: --run_dir or --model_out"), std::string::npos)
      << run.out;
}

TEST_F(LrTest, CorruptDataStopsTheRunOrIsCounted) {
  const std::string copy = folder_ / "corrupt";
  fs::copy_file(*data_ / "train-00000-of-00004.tfrecord", copy);
  std::string bytes = test::ReadFile(copy);
  bytes[bytes.size() / 2] ^= 4;
  test::WriteFile(copy, bytes);
  const ProgramRun stopped = RunProgram("millrace-lr", "--num_features=100000 --train=" + copy);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_NE(stopped.err.find(copy + ": offset "), std::string::npos) << stopped.err;
  const ProgramRun skipped =
      RunProgram("millrace-lr", "--num_features=100000 --on_corrupt=skip --train=" + copy);
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_NE(skipped.out.find("warning   skipped 1 corrupt region,"), std::string::npos)
      << skipped.out;
}

TEST_F(LrTest, EverySharedSetIsLearnedWithTheDefaults) {
  SKIP_WITHOUT_SHARED_DATA();
  const std::string shared = MILLRACE_SHARED_DATA;
  const std::tuple<std::string, std::string, int> sets[] = {
      {"/libsvm/a9a", "libsvm", 5},
      {"/libsvm/agaricus.txt.train", "libsvm", 5},
      {"/libsvm/heart_scale", "libsvm", 60},
      {"/libsvm/rcv1_100rows_difacto", "libsvm", 60},
      {"/libsvm/spark_sample_libsvm_data.txt", "libsvm", 60},
      {"/vw/rcv1_small.dat", "vw", 20},
  };
  for (const std::string optimizer : {"sgd", "ftrl", "adagrad"}) {
    for (const auto& [file, format, epochs] : sets) {
      SCOPED_TRACE(file + " " + optimizer);
      const ProgramRun run =
          RunProgram("millrace-lr", "--train=" + shared + file + " --test=" + shared + file +
                                        " --format=" + format + " --optimizer=" + optimizer +
                                        " --epochs=" + std::to_string(epochs) +
                                        " --run_dir=" + folder_ / "run" + " --overwrite");
      ASSERT_EQ(run.status, 0) << run.err;
      const std::string json = test::ReadFile(folder_ / "run/metrics.jsonl");
      const auto metric = [&](const std::string& name) {
        const size_t at = json.find("\"" + name + "\":");
        return at == std::string::npos ? NAN : std::stod(json.substr(at + name.size() + 3));
      };
      EXPECT_LT(metric("ne"), 0.95) << run.out;
      EXPECT_GT(metric("auc"), 0.89) << run.out;
    }
  }
}

}  // namespace
}  // namespace millrace::lr
