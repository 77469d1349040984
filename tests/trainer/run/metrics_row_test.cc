#include "trainer/run/metrics_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

MetricsRow SomeRow() {
  MetricsRow row = {.step = 200,
                    .examples = 20'000,
                    .epoch = 1,
                    .seconds = 0.12345,
                    .loss = 0.5,
                    .test = {},
                    .examples_per_s = 4'212'345.4};
  row.test.accuracy = 0.75;
  row.test.precision = 0.625;
  row.test.recall = 0.25;
  row.test.f1 = 0.375;
  row.test.auc = 0.7421875;
  row.test.logloss = 0.45;
  row.test.ne = 0.9;
  row.test.calibration = 1.0625;
  return row;
}

TEST(MetricsRow, CsvHasACellForEachColumn) {
  EXPECT_EQ(CsvHeader(),
            "step,examples,epoch,seconds,loss,accuracy,precision,recall,f1,auc,logloss,ne,"
            "calibration,examples_per_s\n");
  EXPECT_EQ(CsvLine(SomeRow()),
            "200,20000,1,0.123,0.5,0.75,0.625,0.25,0.375,0.7421875,0.45,0.9,1.0625,4212345\n");
}

TEST(MetricsRow, ARowOfAnyMetricsHasTheirColumns) {
  const NamedRow row = {.step = 7,
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

TEST(MetricsRow, RateOverNoTimeIsNotTold) {
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

TEST(MetricsRow, WhatIsNotDefinedIsEmptyNullOrNan) {
  MetricsRow row = SomeRow();
  row.loss = -kNan;
  row.test.precision = kNan;
  row.test.auc = kNan;
  row.test.logloss = std::numeric_limits<double>::infinity();
  EXPECT_EQ(CsvLine(row), "200,20000,1,0.123,,0.75,,0.25,0.375,,,0.9,1.0625,4212345\n");
  EXPECT_NE(JsonLine(row).find("\"auc\":null,\"logloss\":null,"), std::string::npos);
  EXPECT_EQ(FormatConsoleLine(row),
            "      200        20000      nan      inf     nan    0.7500        nan  0.2500  0.9000"
            "     4212345");
}

TEST(MetricsRow, EventsHaveTagsByPartAndNoUndefinedValues) {
  MetricsRow row = SomeRow();
  row.test.auc = kNan;
  std::string tags;
  for (const Scalar& scalar : EventScalars(row)) tags += scalar.tag + " ";
  EXPECT_EQ(tags,
            "train/loss train/examples_per_s test/accuracy test/precision test/recall test/f1 "
            "test/logloss test/ne test/calibration ");
  EXPECT_EQ(EventScalars(row)[2].value, 0.75f);
}

}  // namespace
}  // namespace millrace::trainer
