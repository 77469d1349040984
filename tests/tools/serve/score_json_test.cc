// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/score_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "io/base/random.h"

namespace millrace::serve {
namespace {

std::string ScoreText(double score, int output = MILLRACE_SCORE_PROBABILITY) {
  std::string text = "x";
  AppendScore(score, output, text);
  EXPECT_EQ(text[0], 'x');
  return text.substr(1);
}

std::string Printed(double score) {
  char text[64];
  std::snprintf(text, sizeof text, "%.9g", score);
  return text;
}

TEST(AppendScore, ProbabilitiesHaveTheDigitsOfPrintf) {
  Random random(1);
  for (int i = 0; i < 300000; ++i) {
    double score = random.Uniform();
    if (i % 3 == 1) score = std::pow(10, -7 * score);
    if (i % 3 == 2) score = static_cast<double>(static_cast<float>(score));
    if (i % 7 == 3) score = std::round(score * 1e9) / 1e9;
    if (i % 7 == 4) score = std::round(score * 1e5) / 1e5;
    if (i % 7 == 5) score = (std::round(score * 1e9) + 0.5) / 1e9;  // between two of them
    ASSERT_EQ(ScoreText(score), Printed(score));
  }
  for (const double edge : {0.0, 1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 0.5, 0.9999999995,
                            0.99999999949, 0.09999999999, 0.00099999999996, 0.25, 1e-300}) {
    for (const double score : {edge, std::nextafter(edge, 0), std::nextafter(edge, 1)}) {
      ASSERT_EQ(ScoreText(score), Printed(score));
    }
  }
}

TEST(AppendScore, OtherNumbersAreStrings) {
  EXPECT_EQ(ScoreText(std::numeric_limits<double>::quiet_NaN()), "\"NaN\"");
  EXPECT_EQ(ScoreText(std::numeric_limits<double>::infinity(), MILLRACE_SCORE_MARGIN),
            "\"Infinity\"");
  EXPECT_EQ(ScoreText(-1.5, MILLRACE_SCORE_MARGIN), "-1.5");
  EXPECT_EQ(ScoreText(static_cast<double>(0.1f), MILLRACE_SCORE_MARGIN), "0.1");
}

}  // namespace
}  // namespace millrace::serve
