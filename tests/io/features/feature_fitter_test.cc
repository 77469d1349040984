// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_fitter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace millrace::io {
namespace {

FeatureSpec Parse(const std::string& field) {
  Result<FeatureSpec> spec = ParseFeatureSpec(R"({"fields": [)" + field + "]}", "test");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return *spec;
}

// Column 0 is the label, column 1 the field's; an empty text is missing.
Status Add(FeatureFitter& fitter, const std::string& text) {
  FieldRow row;
  row.Clear(2);
  row.Begin(1);
  row.AddText(text);
  return fitter.Add(row);
}

FeatureSpec Fit(const FeatureSpec& spec, const std::vector<std::string>& texts) {
  FeatureFitter fitter(spec);
  for (const std::string& text : texts) EXPECT_TRUE(Add(fitter, text).ok()) << text;
  Result<FeatureSpec> fitted = fitter.Finish();
  EXPECT_TRUE(fitted.ok()) << fitted.status().message();
  EXPECT_TRUE(fitted->IsFitted());
  return *fitted;
}

TEST(FeatureFitterTest, VocabularyHasFrequentValuesInOrder) {
  const FeatureSpec spec = Parse(R"({"name": "a", "rule": "vocabulary", "min_count": 2})");
  const FeatureSpec fitted = Fit(spec, {"z", "b", "", "z", "c", "b", "b", "", "\xff", "\xff"});
  EXPECT_EQ(fitted.fields[0].unseen_rank, 0u);
  EXPECT_EQ(fitted.fields[0].values,
            (std::map<std::string, uint64_t, std::less<>>{{"b", 1}, {"z", 2}}));
}

TEST(FeatureFitterTest, MissingValuesAreAValueIfTheyHaveAKey) {
  const FeatureSpec spec = Parse(R"({"name": "a", "rule": "vocabulary", "missing": "key"})");
  EXPECT_EQ(Fit(spec, {"b", ""}).fields[0].values,
            (std::map<std::string, uint64_t, std::less<>>{{"", 1}, {"b", 2}}));
}

TEST(FeatureFitterTest, ExtensionKeepsOldRanks) {
  const FeatureSpec first = Fit(Parse(R"({"name": "a", "rule": "vocabulary"})"), {"m", "q"});
  const FeatureSpec second = Fit(first, {"a", "q", "z"});
  EXPECT_EQ(second.fields[0].values,
            (std::map<std::string, uint64_t, std::less<>>{{"a", 3}, {"m", 1}, {"q", 2}, {"z", 4}}));
  EXPECT_TRUE(CheckExtends(second, first).ok());
}

TEST(FeatureFitterTest, QuantilesSplitRowsEvenly) {
  const FeatureSpec spec = Parse(R"({"name": "a", "rule": "bucket", "quantiles": 4})");
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back(std::to_string((i * 7) % 1000));
  EXPECT_EQ(Fit(spec, texts).fields[0].boundaries, (std::vector<double>{250, 500, 750}));
}

TEST(FeatureFitterTest, RepeatedQuantilesAreOneBoundary) {
  const FeatureSpec spec = Parse(R"({"name": "a", "rule": "bucket", "quantiles": 10})");
  std::vector<std::string> texts(90, "0");
  texts.insert(texts.end(), 10, "5");
  EXPECT_EQ(Fit(spec, texts).fields[0].boundaries, std::vector<double>{5});
  EXPECT_EQ(Fit(spec, {"3", "3"}).fields[0].boundaries, std::vector<double>{3});
  EXPECT_EQ(Fit(spec, {}).fields[0].boundaries, std::vector<double>{0});
}

TEST(FeatureFitterTest, LargeDataIsSampledTheSameWayEachTime) {
  const FeatureSpec spec = Parse(R"({"name": "a", "rule": "bucket", "quantiles": 2})");
  std::vector<std::string> texts;
  for (size_t i = 0; i < 3 * FeatureFitter::kSample; ++i) texts.push_back(std::to_string(i));
  const double median = Fit(spec, texts).fields[0].boundaries[0];
  EXPECT_NEAR(median, 1.5 * FeatureFitter::kSample, 0.02 * FeatureFitter::kSample);
  EXPECT_EQ(Fit(spec, texts).fields[0].boundaries[0], median);
}

TEST(FeatureFitterTest, StandardisesOrScalesNumbers) {
  const FieldSpec standard =
      Fit(Parse(R"({"name": "a", "rule": "number", "scale": "standard"})"), {"2", "4", "4", "6"})
          .fields[0];
  EXPECT_DOUBLE_EQ(*standard.center, 4);
  EXPECT_DOUBLE_EQ(*standard.factor, 1 / std::sqrt(2.0));
  const FieldSpec max_abs =
      Fit(Parse(R"({"name": "a", "rule": "number", "scale": "max_abs"})"), {"2", "-8"}).fields[0];
  EXPECT_EQ(*max_abs.center, 0);
  EXPECT_EQ(*max_abs.factor, 0.125);
  const FieldSpec constant =
      Fit(Parse(R"({"name": "a", "rule": "number", "scale": "standard"})"), {"7", "7"}).fields[0];
  EXPECT_EQ(*constant.factor, 1);
}

TEST(FeatureFitterTest, TextWhereANumberIsExpectedIsAnError) {
  FeatureFitter fitter(Parse(R"({"name": "a", "rule": "number", "scale": "standard"})"));
  EXPECT_EQ(Add(fitter, "x").message(), "column 'a': expected a finite number, found 'x'");
}

}  // namespace
}  // namespace millrace::io
