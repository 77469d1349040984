// SPDX-License-Identifier: Apache-2.0
#include "trainer/run/metrics_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BinaryMetrics SomeMetrics() {
  BinaryMetrics metrics;
  metrics.accuracy = 0.75;
  metrics.precision = 0.625;
  metrics.recall = 0.25;
  metrics.f1 = 0.375;
  metrics.auc = 0.7421875;
  metrics.logloss = 0.45;
  metrics.ne = 0.9;
  metrics.calibration = 1.0625;
  return metrics;
}

MetricsRow RowOf(const BinaryMetrics& metrics) {
  return {.step = 200,
          .examples = 20'000,
          .epoch = 1,
          .seconds = 0.12345,
          .loss = 0.5,
          .test = NamedValues(metrics),
          .examples_per_s = 4'212'345.4};
}

MetricsRow SomeRow() { return RowOf(SomeMetrics()); }

TEST(MetricsRow, CsvHasACellForEachColumn) {
  EXPECT_EQ(CsvHeader(SomeRow()),
            "step,examples,epoch,seconds,loss,accuracy,precision,recall,f1,auc,logloss,ne,"
            "calibration,examples_per_s\n");
  EXPECT_EQ(CsvLine(SomeRow()),
            "200,20000,1,0.123,0.5,0.75,0.625,0.25,0.375,0.7421875,0.45,0.9,1.0625,4212345\n");
}

TEST(MetricsRow, ARowOfAnyMetricsHasTheirColumns) {
  const MetricsRow row = {.step = 7,
                          .examples = 70,
                          .epoch = 0.5,
                          .seconds = 1,
                          .loss = 2,
                          .test = {{"accuracy", 0.25}, {"top5", kNan}},
                          .examples_per_s = 10};
  EXPECT_EQ(CsvHeader(row), "step,examples,epoch,seconds,loss,accuracy,top5,examples_per_s\n");
  EXPECT_EQ(CsvLine(row), "7,70,0.5,1,2,0.25,,10\n");
  EXPECT_EQ(JsonLine(row),
            "{\"step\":7,\"examples\":70,\"epoch\":0.5,\"seconds\":1.0,\"loss\":2.0,"
            "\"accuracy\":0.25,\"top5\":null,\"examples_per_s\":10.0}\n");
  const std::vector<Scalar> scalars = EventScalars(row);
  ASSERT_EQ(scalars.size(), 3u);
  EXPECT_EQ(scalars[2].tag, "test/accuracy");
}

TEST(MetricsRow, AMetricIsFoundByItsName) {
  EXPECT_EQ(SomeRow().Metric("auc"), 0.7421875);
  EXPECT_TRUE(std::isnan(SomeRow().Metric("top5")));
}

TEST(MetricsRow, RateOverNoTimeIsUndefined) {
  EXPECT_EQ(RowRate(10, 0.5), 20);
  EXPECT_TRUE(std::isnan(RowRate(8, 0)));
  EXPECT_TRUE(std::isnan(RowRate(8, 1e-9)));
  MetricsRow row = SomeRow();
  row.examples_per_s = kNan;
  const std::string line = FormatConsoleLine(row);
  EXPECT_EQ(line.substr(line.size() - 2), " -") << line;
}

TEST(MetricsRow, JsonHasTheSameNames) {
  EXPECT_EQ(JsonLine(SomeRow()),
            "{\"step\":200,\"examples\":20000,\"epoch\":1.0,\"seconds\":0.123,\"loss\":0.5,"
            "\"accuracy\":0.75,\"precision\":0.625,\"recall\":0.25,\"f1\":0.375,"
            "\"auc\":0.7421875,\"logloss\":0.45,\"ne\":0.9,\"calibration\":1.0625,"
            "\"examples_per_s\":4212345.0}\n");
}

TEST(MetricsRow, ConsoleLinesStandUnderTheirHeader) {
  EXPECT_EQ(FormatConsoleHeader(),
            "     step     examples     loss  logloss     auc  accuracy  precision  recall      ne"
            "  examples/s");
  EXPECT_EQ(FormatConsoleLine(SomeRow()),
            "      200        20000  0.50000  0.45000  0.7422    0.7500     0.6250  0.2500  0.9000"
            "     4212345");
}

TEST(MetricsRow, UndefinedValuesAreEmptyNullOrNan) {
  BinaryMetrics metrics = SomeMetrics();
  metrics.precision = kNan;
  metrics.auc = kNan;
  metrics.logloss = std::numeric_limits<double>::infinity();
  MetricsRow row = RowOf(metrics);
  row.loss = -kNan;
  EXPECT_EQ(CsvLine(row), "200,20000,1,0.123,,0.75,,0.25,0.375,,,0.9,1.0625,4212345\n");
  EXPECT_NE(JsonLine(row).find("\"auc\":null,\"logloss\":null,"), std::string::npos);
  EXPECT_EQ(FormatConsoleLine(row),
            "      200        20000      nan      inf     nan    0.7500        nan  0.2500  0.9000"
            "     4212345");
}

TEST(MetricsRow, EventsHaveTagsByPartAndNoUndefinedValues) {
  BinaryMetrics metrics = SomeMetrics();
  metrics.auc = kNan;
  const MetricsRow row = RowOf(metrics);
  std::string tags;
  for (const Scalar& scalar : EventScalars(row)) tags += scalar.tag + " ";
  EXPECT_EQ(tags,
            "train/loss train/examples_per_s test/accuracy test/precision test/recall test/f1 "
            "test/logloss test/ne test/calibration ");
  EXPECT_EQ(EventScalars(row)[2].value, 0.75f);
}

}  // namespace
}  // namespace millrace::trainer
