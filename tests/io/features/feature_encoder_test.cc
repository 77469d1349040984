// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "io/base/string_hash.h"

namespace millrace::io {
namespace {

using Row = std::map<std::string, std::vector<std::string>>;  // column -> texts

FeatureSpec Parse(const std::string& json) {
  Result<FeatureSpec> spec = ParseFeatureSpec(json, "test");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return *spec;
}

FieldRow RowOf(const std::vector<std::string>& columns, const Row& values) {
  FieldRow row;
  row.Clear(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto found = values.find(columns[i]);
    if (found == values.end()) continue;
    row.Begin(i);
    for (const std::string& text : found->second) row.AddText(text);
  }
  return row;
}

struct Encoded {
  Status status;
  float label = 0, weight = 1;
  std::vector<uint64_t> keys = {};
  std::vector<float> values = {};
  std::vector<uint16_t> fields = {};
};

Encoded Encode(const FeatureSpec& spec, const Row& values, Labels labels = Labels::kRequired,
               bool fields = false) {
  auto plan = EncoderPlan::Make(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  FeatureEncoder encoder(*plan, labels, fields);
  BatchBuilder rows;
  rows.Clear(/*wide_rows=*/true);
  const FieldRow row = RowOf((*plan)->columns(), values);
  Encoded made = {.status = encoder.Append(row, rows)};
  if (!made.status.ok()) {
    EXPECT_EQ(rows.batch.rows(), 0u);
    return made;
  }
  rows.Trim();
  made.label = rows.batch.labels[0];
  if (!rows.batch.weights.empty()) made.weight = rows.batch.weights[0];
  made.keys.assign(rows.wide_keys.begin(), rows.wide_keys.end());
  made.values.assign(rows.batch.values.begin(), rows.batch.values.end());
  made.fields.assign(rows.batch.fields.begin(), rows.batch.fields.end());
  return made;
}

// The definition in docs/formats.md, written down once more.
uint64_t Token(const std::string& field, const std::string& value) {
  return HashString(value, HashString(field));
}
uint64_t Cross(const std::string& name, const std::vector<uint64_t>& tokens) {
  std::string bytes;
  for (const uint64_t token : tokens) {
    bytes.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return HashString(bytes, HashString(name));
}

const char kFields[] = R"("fields": [
    {"name": "job"},
    {"name": "age", "rule": "bucket", "boundaries": [25, 35], "missing": "key"},
    {"name": "hours", "rule": "number", "center": 40, "factor": 0.5, "scale": "standard"},
    {"name": "town", "rule": "vocabulary", "unseen": 0, "values": {"": 2, "Ulm": 1},
     "missing": "key"},
    {"name": "tags", "separator": "|"},
    {"name": "age x tags", "rule": "cross", "of": ["age", "tags"]}
  ]})";

TEST(FeatureEncoderTest, NarrowKeysFollowTheLayout) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 10, )") + kFields);
  const Encoded row = Encode(spec, {{"label", {"1"}},
                                    {"job", {"Sales"}},
                                    {"age", {"30"}},
                                    {"hours", {"42"}},
                                    {"town", {"Ulm"}},
                                    {"tags", {"a|b"}}});
  ASSERT_TRUE(row.status.ok()) << row.status.message();
  EXPECT_EQ(row.label, 1);
  const uint64_t age = Token("age", "1");
  EXPECT_EQ(row.keys,
            (std::vector<uint64_t>{Token("job", "Sales") % 1024, 1024 + 1, 1024 + 4, 1024 + 5 + 1,
                                   Token("tags", "a") % 1024, Token("tags", "b") % 1024,
                                   Cross("age x tags", {age, Token("tags", "a")}) % 1024,
                                   Cross("age x tags", {age, Token("tags", "b")}) % 1024}));
  EXPECT_TRUE(row.values.empty());  // all ones
}

TEST(FeatureEncoderTest, HashesWithAnUpdateOfTheirOwnHaveOwnKeys) {
  const std::string fields = R"("fields": [{"name": "a"}, {"name": "b", "l2": 1},
      {"name": "c", "rule": "number", "rate": 2},
      {"name": "v", "rule": "vocabulary", "unseen": 0, "values": {}, "l2": 1},
      {"name": "a x b", "rule": "cross", "of": ["a", "b"], "rate": 2}]})";
  const Row row = {{"label", {"1"}}, {"a", {"x"}}, {"b", {"y"}}, {"c", {"1"}}, {"v", {"z"}}};
  const uint64_t a = Token("a", "x"), b = Token("b", "y");
  const uint64_t cross = Cross("a x b", {a, b});
  EXPECT_EQ(Encode(Parse(R"({"hash_bits": 10, )" + fields), row).keys,
            (std::vector<uint64_t>{a % 1024, 1024 + b % 1024, 3072, 3073, 2048 + cross % 1024}));
  const auto wide = [](uint64_t token, uint64_t group) {
    return (token & (~uint64_t{0} >> 8)) | group << 56;
  };
  EXPECT_EQ(Encode(Parse(R"({"hash_bits": 64, )" + fields), row).keys,
            (std::vector<uint64_t>{wide(a, 0), wide(b, 1), wide(Token("c", "number"), 2),
                                   wide(Token("v", std::string(1, '\0')), 1), wide(cross, 2)}));
}

TEST(FeatureEncoderTest, FieldOfAKeyIsThePositionInTheSpec) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 10, )") + kFields);
  const Row all = {{"label", {"1"}},  {"job", {"Sales", "IT"}}, {"age", {"30"}},
                   {"hours", {"42"}}, {"town", {"Ulm"}},        {"tags", {"a|b"}}};
  const Encoded row = Encode(spec, all, Labels::kRequired, /*fields=*/true);
  EXPECT_EQ(row.fields, (std::vector<uint16_t>{0, 0, 1, 2, 3, 4, 4, 5, 5}));
  const Encoded missing =
      Encode(spec, {{"label", {"1"}}, {"tags", {"a"}}}, Labels::kRequired, /*fields=*/true);
  EXPECT_EQ(missing.fields, (std::vector<uint16_t>{1, 3, 4, 5}));
  EXPECT_EQ(missing.keys.size(), 4u);
  EXPECT_TRUE(Encode(spec, all).fields.empty());
}

TEST(FeatureEncoderTest, NumbersAreScaled) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 10, )") + kFields);
  const Encoded row = Encode(spec, {{"label", {"0"}}, {"hours", {"50"}}});
  ASSERT_TRUE(row.status.ok());
  // age missing, hours, town missing
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{1024 + 3, 1024 + 4, 1024 + 5 + 2}));
  EXPECT_EQ(row.values, (std::vector<float>{1, 5, 1}));
}

TEST(FeatureEncoderTest, UnseenValuesOfAVocabularyShareAKey) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 10, )") + kFields);
  for (const char* town : {"Bonn", "ulm", "Ulm "}) {
    const Encoded row =
        Encode(spec, {{"label", {"0"}}, {"age", {"1"}}, {"hours", {"40"}}, {"town", {town}}});
    EXPECT_EQ(row.keys.back(), 1024u + 5) << town;
  }
}

TEST(FeatureEncoderTest, ExactKeysAreTheTokens) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 64, )") + kFields);
  EXPECT_EQ(spec.num_features(), 0u);
  const Encoded row = Encode(spec, {{"label", {"-1"}},
                                    {"job", {"Sales"}},
                                    {"age", {"35"}},
                                    {"hours", {"41"}},
                                    {"town", {"Bonn"}},
                                    {"tags", {"a"}}});
  ASSERT_TRUE(row.status.ok());
  EXPECT_EQ(row.label, 0);
  EXPECT_EQ(row.keys, (std::vector<uint64_t>{
                          Token("job", "Sales"), Token("age", "2"), Token("hours", "number"),
                          Token("town", std::string(1, '\0')), Token("tags", "a"),
                          Cross("age x tags", {Token("age", "2"), Token("tags", "a")})}));
}

// These never change: models and services in other languages depend on them.
TEST(FeatureEncoderTest, KnownKeys) {
  EXPECT_EQ(HashString("job"), 0xa37fe3f4d9d534f2u);
  EXPECT_EQ(Token("job", "Sales"), 0x416caeeca89c62fdu);
  EXPECT_EQ(Token("site_id", "1fbe01fe85"), 0x0964d1154d14e44au);
  EXPECT_EQ(Cross("a x b", {Token("a", "1"), Token("b", "2")}), 0xf6bd836765a49319u);
}

TEST(FeatureEncoderTest, AFieldWithoutKeysIsStillAPartOfCrosses) {
  const FeatureSpec spec = Parse(R"({"hash_bits": 64, "fields": [
      {"name": "a", "keys": false}, {"name": "b", "keys": false},
      {"name": "ab", "rule": "cross", "of": ["b", "a"]}]})");
  const Encoded row = Encode(spec, {{"label", {"1"}}, {"a", {"1"}}, {"b", {"2"}}});
  EXPECT_EQ(row.keys, std::vector<uint64_t>{Cross("ab", {Token("b", "2"), Token("a", "1")})});
  EXPECT_TRUE(Encode(spec, {{"label", {"1"}}, {"a", {"1"}}}).keys.empty());
}

// VW text: name:weight.
TEST(FeatureEncoderTest, TheWeightOfAValueMultipliesTheValueOfItsKey) {
  const FeatureSpec spec = Parse(R"({"hash_bits": 64, "fields": [
      {"name": "h"}, {"name": "v", "rule": "vocabulary", "values": {"a": 1}, "unseen": 0},
      {"name": "b", "rule": "bucket", "boundaries": [5]}, {"name": "n", "rule": "number"},
      {"name": "x", "rule": "cross", "of": ["h", "v"]}]})");
  const auto plan = *EncoderPlan::Make(spec);
  FieldRow row;
  row.Clear(plan->columns().size());
  const std::pair<const char*, float> values[] = {{"a", 2}, {"new", 3}, {"7", 4}, {"1.5", 5}};
  for (size_t i = 0; i < std::size(values); ++i) {
    row.Begin(i + 1);  // after the label
    row.AddText(values[i].first, values[i].second);
  }
  FeatureEncoder encoder(plan, Labels::kOptional);
  BatchBuilder rows;
  rows.Clear(/*wide_rows=*/true);
  ASSERT_TRUE(encoder.Append(row, rows).ok());
  const std::vector<float> found(rows.batch.values.begin(), rows.batch.values.end());
  EXPECT_EQ(found, (std::vector<float>{2, 3, 4, 7.5, 6}));
}

TEST(FeatureEncoderTest, AProductThatIsNoFloatIsAnError) {
  const FeatureSpec spec = Parse(R"({"fields": [{"name": "a", "rule": "number"},
      {"name": "b", "rule": "number"}, {"name": "x", "rule": "cross", "of": ["a", "b"]}]})");
  EXPECT_TRUE(Encode(spec, {{"label", {"1"}}, {"a", {"1e30"}}, {"b", {"2"}}}).status.ok());
  EXPECT_EQ(Encode(spec, {{"label", {"1"}}, {"a", {"1e30"}}, {"b", {"1e30"}}}).status.message(),
            "cross: expected a product of numbers that fits a float");
}

TEST(FeatureEncoderTest, CrossesOfLongListsAreAnErrorBeforeTheyTakeMemory) {
  const FeatureSpec spec = Parse(R"({"hash_bits": 64, "fields": [{"name": "a", "separator": "|"},
      {"name": "b", "separator": "|"}, {"name": "ab", "rule": "cross", "of": ["a", "b"]},
      {"name": "abb", "rule": "cross", "of": ["a", "b", "ab2"]},
      {"name": "ab2", "separator": "|", "column": "b", "keys": false}]})");
  const auto list = [](size_t values) {
    std::string text = "0";
    for (size_t i = 1; i < values; ++i) text += "|" + std::to_string(i);
    return text;
  };
  const auto crossed = [&](size_t a, size_t b) {
    const std::string texts[] = {list(a), list(b)};
    return Encode(spec, {{"label", {"1"}}, {"a", {texts[0]}}, {"b", {texts[1]}}});
  };
  EXPECT_EQ(crossed(300, 40).keys.size(), 300u + 40 + 300 * 40 + 300 * 40 * 40);
  EXPECT_EQ(crossed(100, 103).status.message(),
            "cross 'abb': expected at most 1048576 keys of crosses in a row, found 100 x 103 x 103 "
            "combinations after 10300 keys");
  EXPECT_EQ(crossed(100000, 100000).status.message(),
            "cross 'ab': expected at most 1048576 keys of crosses in a row, found 100000 x 100000 "
            "combinations");
}

TEST(FeatureEncoderTest, LabelsByTextThresholdAndNumber) {
  const auto label = [](const std::string& spec, const Row& row, Labels labels) {
    return Encode(Parse("{\"label\": " + spec + R"(, "fields": [{"name": "a"}]})"), row, labels);
  };
  const char* text = R"({"column": "y", "positive": ["yes", "1"]})";
  EXPECT_EQ(label(text, {{"y", {"yes"}}}, Labels::kRequired).label, 1);
  EXPECT_EQ(label(text, {{"y", {"no"}}}, Labels::kRequired).label, 0);
  const char* above = R"({"column": "y", "threshold": 3})";
  EXPECT_EQ(label(above, {{"y", {"3"}}}, Labels::kRequired).label, 0);
  EXPECT_EQ(label(above, {{"y", {"3.5"}}}, Labels::kRequired).label, 1);
  EXPECT_TRUE(std::isnan(label(above, {}, Labels::kOptional).label));
  for (const Row& bad : {Row{}, Row{{"y", {"x"}}}, Row{{"y", {"1", "2"}}}}) {
    EXPECT_EQ(label(above, bad, Labels::kRequired).status.code(), Code::kCorrupt);
  }
  EXPECT_NE(label("\"y\"", {{"y", {"2"}}}, Labels::kRequired).status.message().find("found '2'"),
            std::string::npos);
}

TEST(FeatureEncoderTest, BadValuesNameTheColumn) {
  const FeatureSpec spec = Parse(
      R"({"weight": "w", "fields": [{"name": "a", "column": "the age", "rule": "bucket",
          "boundaries": [1]}]})");
  const auto message = [&](const Row& row) { return Encode(spec, row).status.message(); };
  EXPECT_EQ(message({{"label", {"1"}}, {"the age", {"old"}}}),
            "column 'the age': expected a finite number, found 'old'");
  EXPECT_NE(message({{"label", {"1"}}, {"w", {"-1"}}}).find("weight 'w'"), std::string::npos);
  EXPECT_EQ(Encode(spec, {{"label", {"1"}}, {"w", {"2.5"}}}).weight, 2.5f);
}

TEST(FeatureEncoderTest, ExplainNamesTheKeysOfAppend) {
  const FeatureSpec spec = Parse(std::string(R"({"hash_bits": 10, )") + kFields);
  const Row values = {
      {"label", {"1"}}, {"job", {"Sales"}}, {"age", {"30"}}, {"town", {"Rom"}}, {"tags", {"a|b"}}};
  auto plan = EncoderPlan::Make(spec);
  ASSERT_TRUE(plan.ok());
  FeatureEncoder encoder(*plan, Labels::kRequired);
  const auto entries = encoder.Explain(RowOf((*plan)->columns(), values));
  ASSERT_TRUE(entries.ok());
  std::vector<uint64_t> keys;
  std::vector<std::string> names;
  for (const auto& entry : *entries) {
    keys.push_back(entry.key);
    names.push_back(entry.name);
  }
  EXPECT_EQ(keys, Encode(spec, values).keys);
  EXPECT_EQ(names,
            (std::vector<std::string>{"job=Sales", "age=25 to 35", "town=other", "tags=a", "tags=b",
                                      "age=25 to 35 x tags=a", "age=25 to 35 x tags=b"}));
}

TEST(FeatureEncoderTest, NamesOfLogBucketsAreTheirRanges) {
  const FeatureSpec spec =
      Parse(R"({"fields": [{"name": "n", "rule": "bucket", "log2": 4, "missing": "key"}]})");
  auto plan = EncoderPlan::Make(spec);
  ASSERT_TRUE(plan.ok());
  FeatureEncoder encoder(*plan, Labels::kOptional);
  const std::pair<const char*, const char*> table[] = {
      {"", "n=missing"},  {"0", "n=0"},          {"7", "n=7"},  {"9", "n=8..9"},
      {"17", "n=16..19"}, {"-17", "n=-19..-16"}, {"-3", "n=-3"}};
  for (const auto& [text, name] : table) {
    const auto entries = encoder.Explain(RowOf((*plan)->columns(), {{"n", {text}}}));
    ASSERT_TRUE(entries.ok());
    ASSERT_EQ(entries->size(), 1u);
    EXPECT_EQ((*entries)[0].name, name);
  }
}

}  // namespace
}  // namespace millrace::io
