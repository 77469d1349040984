// SPDX-License-Identifier: Apache-2.0
#include "tools/records/infer_spec.h"

#include <gtest/gtest.h>

namespace millrace::records {
namespace {

using io::FieldRule;

// A column of texts; an empty one is missing.
ColumnSummary Column(const std::string& name, const std::vector<std::string>& texts) {
  ColumnSummary column(name);
  io::FieldRow row;
  for (const std::string& text : texts) {
    row.Clear(1);
    row.Begin(0);
    row.AddText(text);
    column.Add(row.column(0));
  }
  return column;
}

// n values by their number.
template <typename Value>
ColumnSummary Made(const std::string& name, size_t n, Value value) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < n; ++i) texts.push_back(value(i));
  return Column(name, texts);
}

const ColumnSummary kLabel = Made("label", 2000, [](size_t i) { return i % 3 ? "0" : "1"; });

io::FieldSpec FieldOf(const ColumnSummary& column) {
  const auto inferred = InferFeatureSpec({kLabel, column, Column("x", {"a"})}, 2000, "");
  EXPECT_TRUE(inferred.ok()) << inferred.status().message();
  return inferred->spec.fields[0];
}

std::string UseOf(const ColumnSummary& column) {
  const auto inferred = InferFeatureSpec({kLabel, column, Column("x", {"a"})}, 2000, "");
  EXPECT_TRUE(inferred.ok()) << inferred.status().message();
  return inferred->columns[1].use;
}

TEST(InferFeatureSpec, RulesFollowTheValues) {
  EXPECT_EQ(FieldOf(Made("c", 2000, [](size_t i) { return "v" + std::to_string(i % 9); })).rule,
            FieldRule::kHash);
  // Few integers are categories, many are a quantity.
  EXPECT_EQ(FieldOf(Made("c", 2000, [](size_t i) { return std::to_string(i % 9); })).rule,
            FieldRule::kHash);
  const io::FieldSpec many =
      FieldOf(Made("c", 2000, [](size_t i) { return std::to_string(i % 640); }));
  EXPECT_EQ(many.rule, FieldRule::kBucket);
  EXPECT_EQ(many.boundaries.size(), 31u);
  EXPECT_FALSE(many.missing_key);
  EXPECT_EQ(FieldOf(Made("c", 2000, [](size_t i) { return i % 9 ? "0.5" : "1.5"; })).rule,
            FieldRule::kBucket);
}

TEST(InferFeatureSpec, AFrequentNumberHasABucketOfItsOwn) {
  const io::FieldSpec field = FieldOf(Made(
      "c", 2000, [](size_t i) { return i % 10 ? std::string("100") : std::to_string(i % 2000); }));
  const auto& b = field.boundaries;
  const auto at = std::find(b.begin(), b.end(), 100.0);
  ASSERT_NE(at, b.end());
  ASSERT_NE(at + 1, b.end());
  EXPECT_EQ(at[1], 110.0);
  EXPECT_GT(b.size(), 20u);
}

TEST(InferFeatureSpec, MissingValuesGetAKeyUnlessTheyAreRare) {
  const auto every = [](size_t n) {
    return Made("c", 2000, [n](size_t i) { return i % n ? "v" + std::to_string(i % 5) : ""; });
  };
  EXPECT_TRUE(FieldOf(every(50)).missing_key);
  EXPECT_FALSE(FieldOf(every(500)).missing_key);
}

TEST(InferFeatureSpec, TextsWithPartsAreSplit) {
  const io::FieldSpec field = FieldOf(Made("c", 2000, [](size_t i) {
    return "a" + std::to_string(i % 20) + "|b" + std::to_string(i % 31);
  }));
  EXPECT_EQ(field.separator, "|");
}

TEST(InferFeatureSpec, ColumnsWithoutInformationAreLeftOut) {
  EXPECT_EQ(UseOf(Made("c", 2000, [](size_t) { return "same"; })), "left out: one value only");
  EXPECT_EQ(UseOf(Made("c", 2000, [](size_t) { return ""; })), "left out: no value");
  EXPECT_EQ(UseOf(Made("c", 2000, [](size_t i) { return "user-" + std::to_string(i); })),
            "left out: a value of its own in almost every row");
  EXPECT_EQ(UseOf(Made("weight", 2000, [](size_t i) { return std::to_string(i % 3 + 1); })),
            "weight");
}

TEST(InferFeatureSpec, LabelIsFoundByNameOrValues) {
  const ColumnSummary text = Made("t", 10, [](size_t i) { return i % 3 ? "low" : "high"; });
  const ColumnSummary other = Made("u", 10, [](size_t i) { return i % 2 ? "a" : "b"; });
  const ColumnSummary yes = Made("v", 10, [](size_t i) { return i % 2 ? "yes" : "no"; });
  const ColumnSummary click = Made("Click", 10, [](size_t i) { return i % 2 ? "7" : "9"; });
  const auto label = [&](std::vector<ColumnSummary> columns, const std::string& name = "") {
    const auto inferred = InferFeatureSpec(columns, 10, name);
    return inferred.ok() ? inferred->spec.label.column : inferred.status().message();
  };
  EXPECT_EQ(label({text, other, yes, click}), "Click");
  EXPECT_EQ(label({text, other, yes}), "v");
  EXPECT_EQ(label({text, Column("x", {"a"}), other, Column("z", {"a"})}), "t");
  EXPECT_EQ(label({text, other, yes}, "u"), "u");
  EXPECT_NE(label({text, other}).find("found t, u: name it"), std::string::npos);
  EXPECT_NE(label({Column("x", {"a"}), Column("y", {"b"})})
                .find("found none: name it with --label; the columns are x, y"),
            std::string::npos);
  EXPECT_EQ(label({text, other}, "w"), "label: there is no column 'w'; the columns are t, u");
  // The rarer value is the positive one.
  EXPECT_EQ(InferFeatureSpec({text, other}, 10, "t")->spec.label.positive,
            std::vector<std::string>{"high"});
  EXPECT_EQ(InferFeatureSpec({text, yes}, 10, "v")->spec.label.positive,
            std::vector<std::string>{"yes"});
}

}  // namespace
}  // namespace millrace::records
