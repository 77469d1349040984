// SPDX-License-Identifier: Apache-2.0
#include "io/features/candidate_encoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/base/random.h"

namespace millrace::io {
namespace {

// All rules; a field in no cross, in one and in two; fields without keys, with defaults, with a key
// for missing values, and with a separator.
constexpr char kSpec[] = R"({"hash_bits": 20, "fields": [
  {"name": "a"}, {"name": "b", "missing": "key"},
  {"name": "a x b", "rule": "cross", "of": ["a", "b"]},
  {"name": "c", "rule": "bucket", "boundaries": [1, 2, 3], "default": "2"},
  {"name": "d", "separator": "|"},
  {"name": "e", "rule": "number"},
  {"name": "c x d x e", "rule": "cross", "of": ["c", "d", "e"]},
  {"name": "f", "keys": false},
  {"name": "f x a", "rule": "cross", "of": ["f", "a"]},
  {"name": "g", "column": "a", "rule": "bucket", "boundaries": [10]}]})";
constexpr size_t kColumns = 7;  // label, a to f

std::shared_ptr<const EncoderPlan> Plan(const std::string& json) {
  const Result<FeatureSpec> spec = ParseFeatureSpec(json, "test");
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  auto plan = EncoderPlan::Make(*spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

using Values = std::vector<std::vector<std::string>>;  // of each column

Values RandomValues(Random& random, size_t share, bool errors) {
  Values values(kColumns);
  for (size_t column = 1; column < kColumns; ++column) {
    if (random.Below(10) >= share) continue;
    for (uint64_t i = random.Below(4); i > 0; --i) {
      std::string text = std::to_string(random.Below(20));
      if (column == 4 && random.Below(2) == 0) text += "|" + text + "1";
      if (errors && random.Below(8) == 0) text = "no number";
      if (errors && random.Below(8) == 0) text = "1e30";  // a product may be too large
      values[column].push_back(text);
    }
  }
  return values;
}

FieldRow RowOf(const Values& values) {
  FieldRow row;
  row.Clear(values.size());
  for (size_t column = 0; column < values.size(); ++column) {
    row.Begin(column);
    for (const std::string& text : values[column]) row.AddText(text);
  }
  return row;
}

struct Keys {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  std::vector<uint16_t> fields;
  bool operator==(const Keys&) const = default;
};

Keys Joined(const CandidateEncoder& encoder, const CandidateRows& rows, size_t r, size_t& own) {
  Keys joined;
  const auto add = [&](uint64_t key, float value, uint16_t field) {
    joined.keys.push_back(key);
    joined.values.push_back(value);
    joined.fields.push_back(field);
  };
  for (size_t run = r == 0 ? 0 : rows.run_end[r - 1]; run < rows.run_end[r]; ++run) {
    const auto [first, shared, count] = rows.runs[run];
    for (size_t i = first; i < first + shared; ++i) {
      add(encoder.context_keys()[i], encoder.context_values()[i], encoder.context_fields()[i]);
    }
    for (size_t i = 0; i < count; ++i, ++own)
      add(rows.keys[own], rows.values[own], rows.fields[own]);
  }
  return joined;
}

TEST(CandidateEncoder, RowsHaveTheKeysOfTheJoinedRow) {
  const auto plan = Plan(kSpec);
  ASSERT_EQ(plan->columns().size(), kColumns);
  FeatureEncoder plain(plan, Labels::kOptional, /*fields=*/true);
  CandidateEncoder encoder(plan, /*fields=*/true);
  size_t failed = 0, equal = 0, shared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const bool errors = seed % 3 == 0;
    const Values context = RandomValues(random, 8, errors);
    const FieldRow context_row = RowOf(context);
    encoder.SetContext(context_row);
    CandidateRows rows;
    size_t own = 0;
    for (int i = 0; i < 8; ++i) {
      const Values candidate = RandomValues(random, i < 4 ? 3 : 9, errors);
      Values both = context;
      for (size_t column = 0; column < kColumns; ++column) {
        if (!candidate[column].empty()) both[column] = candidate[column];
      }
      BatchBuilder expected;
      expected.Clear(/*wide_rows=*/true);
      const FieldRow both_row = RowOf(both), candidate_row = RowOf(candidate);
      const Status status = plain.Append(both_row, expected);
      const size_t before = rows.rows(), runs = rows.runs.size();
      const Status found = encoder.Append(candidate_row, rows);
      ASSERT_EQ(found.ok(), status.ok()) << found.message() << " and " << status.message();
      if (!status.ok()) {
        ASSERT_EQ(rows.rows(), before);
        ASSERT_EQ(rows.runs.size(), runs);
        ++failed;
        continue;
      }
      Keys row;
      row.keys.assign(expected.wide_keys.begin(),
                      expected.wide_keys.begin() + static_cast<ptrdiff_t>(expected.nnz()));
      row.values.assign(expected.batch.values.begin(), expected.batch.values.end());
      if (row.values.empty()) row.values.resize(row.keys.size(), 1);
      row.fields.assign(expected.batch.fields.begin(), expected.batch.fields.end());
      ASSERT_EQ(Joined(encoder, rows, before, own), row);
      shared += rows.runs[runs].shared > 0;
      ++equal;
    }
    EXPECT_EQ(own, rows.keys.size());
  }
  EXPECT_GT(failed, 50u);
  EXPECT_GT(equal, 1000u);
  EXPECT_GT(shared, 500u);
}

TEST(CandidateEncoder, CrossesOfLongListsAreAnError) {
  const auto plan = Plan(R"({"hash_bits": 20, "fields": [{"name": "a"}, {"name": "b"},
                             {"name": "a x b", "rule": "cross", "of": ["a", "b"]}]})");
  Values values(3);
  for (int i = 0; i < 100; ++i) values[1].push_back(std::to_string(i));
  values[2] = values[1];
  const FieldRow row = RowOf(values);
  FeatureEncoder plain(plan, Labels::kOptional);
  plain.LimitKeys(10199);
  BatchBuilder rows;
  rows.Clear(/*wide_rows=*/true);
  const Status status = plain.Append(row, rows);
  EXPECT_EQ(status.message(), "cross: expected a row of at most 10199 keys, found more");
  plain.LimitKeys(10200);
  EXPECT_TRUE(plain.Append(row, rows).ok());

  CandidateEncoder encoder(plan);
  encoder.LimitKeys(10199);
  CandidateRows candidates;
  encoder.SetContext(row);
  values[1] = {"1"};
  const FieldRow short_row = RowOf(values);
  EXPECT_TRUE(encoder.Append(short_row, candidates).ok());  // replaces the long list
  values[1].clear();
  values[2].clear();
  const FieldRow empty_row = RowOf(values);
  EXPECT_FALSE(encoder.Append(empty_row, candidates).ok());
}

}  // namespace
}  // namespace millrace::io
