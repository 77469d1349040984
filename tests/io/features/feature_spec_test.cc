// SPDX-License-Identifier: Apache-2.0
#include "io/features/feature_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace::io {
namespace {

constexpr char kSpec[] = R"({
  "label": {"column": "income", "positive": [">50K"]},
  "weight": "w",
  "hash_bits": 10,
  "fields": [
    {"name": "job"},
    {"name": "age", "rule": "bucket", "boundaries": [25, 35.5], "missing": "key"},
    {"name": "gain", "column": "capital gain", "rule": "bucket", "log2": 4, "keys": false},
    {"name": "hours", "rule": "number", "scale": "standard", "center": 40, "factor": 0.1},
    {"name": "town", "rule": "vocabulary", "min_count": 3, "unseen": 0,
     "values": {"": 2, "Ulm": 1, "K\u00f6ln": 3}},
    {"name": "tags", "rule": "hash", "separator": "|", "default": "none"},
    {"name": "age x job", "rule": "cross", "of": ["age", "job"]}
  ]
})";

FeatureSpec Spec() {
  Result<FeatureSpec> spec = ParseFeatureSpec(kSpec, "test");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return *spec;
}

TEST(FeatureSpecTest, ReadsEveryMember) {
  const FeatureSpec spec = Spec();
  EXPECT_EQ(spec.label.positive, std::vector<std::string>{">50K"});
  EXPECT_EQ(spec.Columns(), (std::vector<std::string>{"income", "w", "job", "age", "capital gain",
                                                      "hours", "town", "tags"}));
  EXPECT_TRUE(spec.IsFitted());
  EXPECT_EQ(spec.fields[4].values.at("Köln"), 3u);
  EXPECT_EQ(spec.fields[5].default_value, "none");
}

TEST(FeatureSpecTest, KeysOfHashesComeFirstThenBucketsThenVocabularies) {
  const FeatureSpec spec = Spec();
  const std::vector<uint64_t> first = spec.FirstKeys();
  EXPECT_EQ(first[0], 0u);
  EXPECT_EQ(first[1], 1024u);
  EXPECT_EQ(first[3], 1024u + 4);  // three buckets and missing; gain has no keys
  EXPECT_EQ(first[6], 0u);
  EXPECT_EQ(first.back(), 1024u + 4 + 1);
  EXPECT_EQ(spec.num_features(), 1024u + 4 + 1 + 4);
}

TEST(FeatureSpecTest, JsonReadsBackAsTheSameSpec) {
  const FeatureSpec spec = Spec();
  for (const std::string& json : {spec.ToJson(), spec.ToPrettyJson()}) {
    const Result<FeatureSpec> again = ParseFeatureSpec(json, "test");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->ToJson(), spec.ToJson());
  }
  EXPECT_EQ(spec.ToJson().find('\n'), std::string::npos);
}

FeatureSpec WithUpdates(const std::string& hash_bits) {
  const auto spec = ParseFeatureSpec("{\"hash_bits\": " + hash_bits + R"(, "fields": [
      {"name": "a", "l2": 2},
      {"name": "b"},
      {"name": "c", "rule": "number", "rate": 0.5},
      {"name": "d", "rule": "bucket", "boundaries": [1]},
      {"name": "v", "rule": "vocabulary", "unseen": 0, "values": {"x": 1, "z": 4}, "l1": 0},
      {"name": "w", "rule": "vocabulary", "unseen": 2, "values": {"y": 3}},
      {"name": "e", "rate": 0.5},
      {"name": "q", "rule": "cross", "of": ["b", "*"], "ignore": ["c", "d", "v", "w", "e"], "l2": 2}
    ]})",
                                     "test");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return *spec;
}

std::vector<std::pair<uint64_t, size_t>> RangesOf(const FeatureSpec& spec) {
  std::vector<std::pair<uint64_t, size_t>> ranges;
  for (const auto& [key, group] : spec.Groups().ranges) ranges.emplace_back(key, group);
  return ranges;
}

// b has the first 8 keys, a and q the next ones, then e; c, d and the vocabularies.
TEST(FeatureSpecTest, HashesWithAnUpdateOfTheirOwnHaveOwnKeys) {
  const FeatureSpec spec = WithUpdates("3");
  EXPECT_EQ(spec.fields.back().name, "q: b x a");
  EXPECT_EQ(spec.FirstKeys(), (std::vector<uint64_t>{8, 0, 24, 25, 27, 27, 16, 8, 27}));
  EXPECT_EQ(spec.num_features(), 32u);
  const FieldGroups groups = spec.Groups();
  ASSERT_EQ(groups.updates.size(), 3u);
  EXPECT_EQ(groups.updates[0], (FieldUpdate{.l2 = 2}));
  EXPECT_EQ(groups.updates[1], (FieldUpdate{.rate = 0.5}));
  EXPECT_EQ(groups.updates[2], (FieldUpdate{.l1 = 0}));
  using Ranges = std::vector<std::pair<uint64_t, size_t>>;
  EXPECT_EQ(RangesOf(spec), (Ranges{{8, 1}, {16, 2}, {25, 0}, {27, 3}, {29, 0}, {31, 3}}));
  constexpr uint64_t kFirstByte = uint64_t{1} << 56;
  const FeatureSpec wide = WithUpdates("64");
  EXPECT_EQ(RangesOf(wide), (Ranges{{kFirstByte, 1}, {2 * kFirstByte, 2}, {3 * kFirstByte, 3}}));
  EXPECT_EQ(wide.num_features(), 0u);
  EXPECT_TRUE(Spec().Groups().ranges.empty());
}

TEST(FeatureSpecTest, UpdatesAreReadBackAndBelongToTheDifferenceOfSpecs) {
  const FeatureSpec spec = WithUpdates("3");
  const auto again = ParseFeatureSpec(spec.ToJson(), "test");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->ToJson(), spec.ToJson());
  EXPECT_EQ(DifferenceOf(spec, *again), "");
  FeatureSpec other = spec;
  other.fields[0].update.l2 = 3;
  EXPECT_NE(DifferenceOf(spec, other).find("\"l2\":3"), std::string::npos)
      << DifferenceOf(spec, other);
}

std::vector<std::string> FieldNames(const std::string& fields) {
  const auto spec = ParseFeatureSpec("{\"fields\": [" + fields + "]}", "test");
  if (!spec.ok()) return {spec.status().message()};
  std::vector<std::string> names;
  for (const FieldSpec& field : spec->fields) names.push_back(field.name);
  return names;
}

TEST(FeatureSpecTest, AWildcardCrossStandsForAllFields) {
  using Names = std::vector<std::string>;
  const std::string abc = R"({"name": "a"}, {"name": "b", "keys": false}, {"name": "c"},)";
  EXPECT_EQ(FieldNames(abc + R"({"name": "q", "rule": "cross", "of": ["*", "*"]})"),
            (Names{"a", "b", "c", "q: a x b", "q: a x c", "q: b x c"}));
  EXPECT_EQ(FieldNames(abc + R"({"name": "q", "rule": "cross", "of": ["*", "*", "*"]})"),
            (Names{"a", "b", "c", "q: a x b x c"}));
  EXPECT_EQ(FieldNames(abc + R"({"name": "q", "rule": "cross", "of": ["b", "*"]})"),
            (Names{"a", "b", "c", "q: b x a", "q: b x c"}));
  EXPECT_EQ(
      FieldNames(abc + R"({"name": "q", "rule": "cross", "of": ["*", "*"], "ignore": ["b"]})"),
      (Names{"a", "b", "c", "q: a x c"}));
}

TEST(FeatureSpecTest, NoFieldsAreCrossedTwice) {
  const std::string spec = R"({"name": "a"}, {"name": "b"}, {"name": "c"},
      {"name": "q", "rule": "cross", "of": ["*", "*"]}, {"name": "own", "rule": "cross", "of": ["c", "a"]},
      {"name": "r", "rule": "cross", "of": ["b", "*"]})";
  EXPECT_EQ(FieldNames(spec),
            (std::vector<std::string>{"a", "b", "c", "q: a x b", "q: b x c", "own"}));
}

TEST(FeatureSpecTest, BadUpdatesNameThePlace) {
  const auto error = [](const std::string& more) {
    return FieldNames("{\"name\": \"a\"}, {\"name\": \"b\", " + more + "}")[0];
  };
  EXPECT_EQ(error(R"("l1": -1)"),
            "test: field 'b': l1: expected a number from 0 to 1e+06, found -1");
  EXPECT_EQ(error(R"("l2": "x")"), "test: field 2: l2: expected a number");
  EXPECT_EQ(error(R"("rate": 0)"),
            "test: field 'b': rate: expected a number from 1e-06 to 1e+06, found 0");
  EXPECT_EQ(error(R"("rate": 2, "keys": false)"),
            "test: field 'b': expected no l1, l2 and rate of a field without keys");
  std::string many = "{\"name\": \"a\"}";
  for (int i = 0; i < 255; ++i) {
    many += ", {\"name\": \"f" + std::to_string(i) + "\", \"l2\": " + std::to_string(i + 1) + "}";
  }
  EXPECT_EQ(FieldNames(many)[0], "test: fields: expected at most 254 different l1, l2 and rate");
}

TEST(FeatureSpecTest, BadWildcardsNameThePlace) {
  const auto error = [](const std::string& cross) {
    return FieldNames(R"({"name": "a"}, {"name": "b"}, {"name": "q", "rule": "cross", )" + cross +
                      "}")[0];
  };
  EXPECT_EQ(error(R"("of": ["*", "*"], "ignore": ["x"])"),
            "test: field 'q': ignore: there is no field 'x'");
  EXPECT_EQ(error(R"("of": ["*", "*"], "ignore": ["b"])"),
            "test: field 'q': of: expected at least 2 fields for *, found 1");
  EXPECT_EQ(error(R"("of": ["a", "b"], "ignore": ["b"])"),
            "test: field 3: ignore: expected a * in the member of beside it");
  EXPECT_EQ(error(R"("of": ["x", "*"])"), "test: field 'q: x x a': of: there is no field 'x'");
  EXPECT_EQ(error(R"("of": ["*"])"), "test: field 'q: a': of: expected two or more fields");
  EXPECT_EQ(FieldNames(R"({"name": "*"})")[0],
            "test: field '*': expected another name: * stands for all");
  std::string many;
  for (int i = 0; i < 210; ++i) many += R"({"name": "f)" + std::to_string(i) + "\"},";
  EXPECT_EQ(FieldNames(many + R"({"name": "q", "rule": "cross", "of": ["*", "*"]})")[0],
            "test: field 'q': of: expected at most 20000 fields and crosses in all: name fields to "
            "leave out in ignore");
}

TEST(FeatureSpecTest, DifferenceNamesTheField) {
  const FeatureSpec spec = Spec();
  EXPECT_EQ(DifferenceOf(spec, spec), "");
  FeatureSpec other = spec;
  other.fields[1].boundaries[0] = 26;
  EXPECT_EQ(DifferenceOf(spec, other),
            R"(field 'age': "boundaries":[25.0,35.5],"missing":"key"} against )"
            R"("boundaries":[26.0,35.5],"missing":"key"})");
  other = spec;
  other.hash_bits = 11;
  EXPECT_NE(DifferenceOf(spec, other).find("10 against 11"), std::string::npos);
  other = spec;
  other.fields.pop_back();
  EXPECT_NE(DifferenceOf(spec, other).find("'age x job' is missing"), std::string::npos);
  other = spec;
  other.fields.erase(other.fields.begin());
  EXPECT_EQ(DifferenceOf(spec, other), "field 1: 'job' against 'age'");
}

TEST(FeatureSpecTest, TheDifferenceOfLongListsIsTheElement) {
  FeatureSpec spec = Spec();
  for (int i = 0; i < 500; ++i) spec.fields[1].boundaries.push_back(100 + i);
  FeatureSpec other = spec;
  other.fields[1].boundaries.back() = 999;
  EXPECT_EQ(DifferenceOf(spec, other),
            R"(field 'age': 599.0],"missing":"key"} against 999.0],"missing":"key"})");
  other = spec;
  other.fields[1].update.rate = 2;
  EXPECT_EQ(DifferenceOf(spec, other), R"(field 'age': nothing against "rate":2.0})");
  EXPECT_EQ(DifferenceOf(other, spec), R"(field 'age': "rate":2.0} against nothing)");
}

TEST(FeatureSpecTest, OnlyNewValuesOfVocabulariesExtendASpec) {
  const FeatureSpec spec = Spec();
  FeatureSpec more = spec;
  more.fields[4].values["Bonn"] = 4;
  EXPECT_TRUE(CheckExtends(more, spec).ok());
  EXPECT_FALSE(CheckExtends(spec, more).ok());
  more.fields[4].values["Ulm"] = 5;
  EXPECT_FALSE(CheckExtends(more, spec).ok());
}

struct BadSpec {
  const char* json;
  const char* message;
};

TEST(FeatureSpecTest, ErrorsNameThePlace) {
  const BadSpec table[] = {
      {"", "expected JSON"},
      {"[1]", "expected a JSON object"},
      {"{}", "fields: expected a list"},
      {R"({"fields": []})", "at least one field"},
      {R"({"fields": [{"name": "a"}], "fileds": 1})", "unknown member 'fileds'"},
      {R"({"fields": [{"name": "a", "rule": "hsah"}]})", "field 1: rule: expected hash"},
      {R"({"fields": [{"name": "a"}, {"name": "a"}]})", "field 'a': a second field"},
      {R"({"fields": [{"name": "a", "name": "b"}]})", "given twice"},
      {R"({"fields": [{"rule": "hash"}]})", "no name"},
      {R"({"fields": [{"name": 3}]})", "field 1: name: expected a text"},
      {R"({"fields": [{"name": "a", "boundaries": [1]}]})", "unknown member 'boundaries'"},
      {R"({"fields": [{"name": "a", "rule": "bucket"}]})", "expected boundaries"},
      {R"({"fields": [{"name": "a", "rule": "bucket", "boundaries": [2, 1]}]})", "ascending"},
      {R"({"fields": [{"name": "a", "rule": "bucket", "log2": 3}]})", "log2: expected 1, 2, 4"},
      {R"({"fields": [{"name": "a", "rule": "bucket", "log2": 4, "boundaries": [1]}]})", "log2"},
      {R"({"fields": [{"name": "a", "rule": "number", "scale": "big"}]})", "none, standard"},
      {R"({"fields": [{"name": "a", "rule": "number", "center": 1}]})", "center and factor"},
      {R"({"fields": [{"name": "a"}, {"name": "c", "rule": "cross", "of": ["a", "b"]}]})",
       "there is no field 'b'"},
      {R"({"fields": [{"name": "a"}, {"name": "c", "rule": "cross", "of": ["a"]}]})",
       "two or more"},
      {R"({"fields": [{"name": "a"}, {"name": "c", "rule": "cross", "of": ["a", "a"]}]})",
       "different fields"},
      {R"({"fields": [{"name": "a", "missing": "key", "default": "x"}]})", "missing and default"},
      {R"({"fields": [{"name": "a", "missing": "no"}]})", "skip or key"},
      {R"({"fields": [{"name": "label"}]})", "is the label"},
      {R"({"fields": [{"name": "a"}], "hash_bits": 0})", "hash_bits: expected 1"},
      {R"({"fields": [{"name": "a"}], "hash_bits": 63})", "hash_bits"},
      {R"({"fields": [{"name": "a"}], "hash_bits": -1})", "a whole number"},
      {R"({"label": {"column": "y", "positive": ["a"], "threshold": 1}, "fields": [{"name": "a"}]})",
       "one of positive and threshold"},
      {R"({"fields": [{"name": "a", "rule": "vocabulary", "values": {"x": 0}}]})", "unseen"},
      {R"({"fields": [{"name": "a", "rule": "vocabulary", "unseen": 0, "values": {"x": 2}}]})",
       "found 2 instead of 1"},
      {R"({"fields": [{"name": "a", "rule": "vocabulary", "unseen": 0, "values": {"x": 0}}]})",
       "twice"},
  };
  for (const BadSpec& bad : table) {
    SCOPED_TRACE(bad.json);
    const Result<FeatureSpec> spec = ParseFeatureSpec(bad.json, "s.json");
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.status().message().rfind("s.json: ", 0), 0u) << spec.status().message();
    EXPECT_NE(spec.status().message().find(bad.message), std::string::npos)
        << spec.status().message();
  }
}

TEST(FeatureSpecTest, NeedsAFirstPassForWhatTheDataDecides) {
  for (const char* rest : {R"("rule": "vocabulary")", R"("rule": "bucket", "quantiles": 8)",
                           R"("rule": "number", "scale": "max_abs")"}) {
    const auto spec =
        ParseFeatureSpec(std::string(R"({"fields": [{"name": "a", )") + rest + "}]}", "test");
    ASSERT_TRUE(spec.ok()) << spec.status().message();
    EXPECT_FALSE(spec->IsFitted()) << rest;
  }
}

}  // namespace
}  // namespace millrace::io
