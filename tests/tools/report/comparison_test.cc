// SPDX-License-Identifier: Apache-2.0
#include "tools/report/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/support/test_files.h"
#include "tools/report/page.h"

namespace millrace::report {
namespace {

class ComparisonTest : public testing::Test {
 protected:
  // A run with evaluations at `examples`, whose logloss falls to `logloss`.
  void Write(const std::string& name, const std::string& rate, const std::vector<int>& examples,
             double logloss, const std::string& predictions = "") {
    const std::filesystem::path run = folder_ / name;
    std::filesystem::create_directories(run);
    test::WriteFile(run / "run.json", R"({"status":"finished","seconds":2.5,"flags":{"l1":"0",)"
                                      R"("run_dir":")" +
                                          name + R"(","learning_rate":")" + rate + "\"}}");
    std::string csv = "step,examples,epoch,seconds,loss,logloss,auc\n";
    for (size_t i = 0; i < examples.size(); ++i) {
      const double rest = static_cast<double>(examples.size() - i - 1);
      csv += std::to_string(i) + "," + std::to_string(examples[i]) + ",0," + std::to_string(i + 1) +
             ",0.5," + std::to_string(logloss + 0.01 * rest) + ",0.7\n";
    }
    test::WriteFile(run / "metrics.csv", csv);
    if (!predictions.empty()) test::WriteFile(run / "predictions.csv", predictions);
  }

  ComparedRun Summary(const std::string& name) {
    const Result<RunData> run = LoadRun(folder_ / name);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return SummarizeRun(*run, 1 << 20);
  }

  test::TemporaryFolder folder_;
};

TEST_F(ComparisonTest, MetricsAreFinalBestAndAtEqualExamples) {
  Write("a", "0.1", {100, 200, 300}, 0.40);
  Write("b", "0.2", {100, 200}, 0.42);
  const Comparison c = Compare({Summary("a"), Summary("b")});
  EXPECT_EQ(c.equal_examples, 200);
  EXPECT_NEAR(c.runs[0].Final("logloss"), 0.40, 1e-9);
  EXPECT_NEAR(c.runs[0].At("logloss", c.equal_examples), 0.41, 1e-9);
  EXPECT_NEAR(c.runs[1].At("logloss", c.equal_examples), 0.42, 1e-9);
  EXPECT_NEAR(c.runs[1].Best("auc"), 0.7, 1e-9);
  EXPECT_TRUE(std::isnan(c.runs[1].Best("f1")));
  EXPECT_EQ(c.flags, std::vector<std::string>{"learning_rate"});
  EXPECT_EQ(c.metrics, (std::vector<std::string>{"loss", "logloss", "auc"}));
  EXPECT_FALSE(c.best);
  const std::string text = ComparisonText(c);
  EXPECT_NE(text.find("--learning_rate"), std::string::npos) << text;
  EXPECT_NE(text.find("at 200"), std::string::npos) << text;
}

TEST_F(ComparisonTest, NamesTellRunsOfDifferentFoldersApart) {
  Write("x/run", "0.1", {100}, 0.4);
  Write("y/run", "0.1", {100}, 0.4);
  const Comparison c = Compare({Summary("x/run"), Summary("y/run")});
  EXPECT_EQ(c.runs[0].name, "x/run");
  EXPECT_EQ(c.runs[1].name, "y/run");
}

std::string PredictionsOf(double noise) {
  std::string text = "label,weight,margin\n";
  for (int i = 0; i < 2000; ++i) {
    const double truth = i % 3 == 0 ? 1 : -1;
    text += std::string(i % 3 == 0 ? "1" : "0") + ",1," +
            std::to_string(truth + noise * std::sin(i * 12.9898)) + "\n";
  }
  return text;
}

TEST_F(ComparisonTest, RunsAreComparedWithTheBestOnTheSameRows) {
  Write("best", "0.1", {100}, 0.4, PredictionsOf(0));
  Write("twin", "0.1", {100}, 0.4, PredictionsOf(0));
  Write("worse", "0.2", {100}, 0.4, PredictionsOf(2));
  Write("other", "0.2", {100}, 0.4, "label,weight,margin\n1,1,0\n0,1,0\n");
  Write("broken", "0.2", {100}, 0.4, "label\n");
  const Comparison c = Compare(
      {Summary("worse"), Summary("best"), Summary("twin"), Summary("other"), Summary("broken")});
  ASSERT_TRUE(c.best);
  EXPECT_EQ(c.runs[*c.best].name, "best");
  ASSERT_EQ(c.differences.size(), 2u);
  EXPECT_EQ(c.differences[0].run, 0u);
  EXPECT_EQ(DifferenceText(c.differences[0].logloss), "worse");
  EXPECT_EQ(DifferenceText(c.differences[1].logloss), "tie");
  ASSERT_EQ(c.runs[4].warnings.size(), 1u);
  EXPECT_NE(c.runs[4].warnings[0].find("predictions.csv: line 1: expected label,weight,margin"),
            std::string::npos);
  const std::string page = ComparePageHtml(ComparisonJson(c), NewNonce());
  EXPECT_EQ(page.find("@DATA@"), std::string::npos);
  EXPECT_NE(page.find("\"result\":\"tie\""), std::string::npos);
}

TEST_F(ComparisonTest, WatchListsRunsAndNothingElse) {
  Write("a", "0.1", {100, 200}, 0.40);
  std::filesystem::create_directories(folder_ / "no run");
  std::filesystem::create_directories(folder_ / "linked");
  std::filesystem::create_symlink(folder_ / "a/run.json", folder_ / "linked/run.json");
  std::filesystem::create_directories(folder_ / "bad");
  test::WriteFile(folder_ / "bad/run.json", "{");
  const Result<std::string> text = WatchText(folder_.path(), 0);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("finished"), std::string::npos) << *text;
  EXPECT_NE(text->find("0.40000"), std::string::npos) << *text;
  EXPECT_NE(text->find("unreadable"), std::string::npos) << *text;
  EXPECT_EQ(text->find("linked"), std::string::npos) << *text;
  EXPECT_FALSE(WatchText(folder_ / "no run", 0).ok());
  EXPECT_FALSE(WatchText(folder_ / "none", 0).ok());
}

}  // namespace
}  // namespace millrace::report
