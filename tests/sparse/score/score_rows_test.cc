// SPDX-License-Identifier: Apache-2.0
// Rows of named fields: the forms of a row, candidates and errors.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/features/feature_encoder.h"
#include "io/text/json_columns.h"
#include "tests/sparse/score/serving_fixture.h"

namespace millrace::score {
namespace {

constexpr char kSpec[] = R"({"hash_bits": 12, "label": {"column": "clicked"}, "fields": [
  {"name": "user"}, {"name": "tags"}, {"name": "ad"}, {"name": "price", "rule": "number"},
  {"name": "age", "rule": "bucket", "boundaries": [20, 40], "missing": "key"},
  {"name": "user x ad", "rule": "cross", "of": ["user", "ad"]},
  {"name": "tags x ad", "rule": "cross", "of": ["tags", "ad"]}]})";
const char* const kNames[] = {"user", "tags", "ad", "price", "age"};

// A row in two forms: as fields, and as JSON.
struct Row {
  std::vector<std::pair<std::string, std::vector<std::string>>> columns = {};

  std::string Json() const {
    std::string json = "{";
    for (const auto& [name, values] : columns) {
      json += (json.size() > 1 ? ", \"" : "\"") + name + "\": [";
      for (size_t i = 0; i < values.size(); ++i) {
        const bool number = name == "price" || name == "age";
        json += (i > 0 ? "," : "") + (number ? values[i] : '"' + values[i] + '"');
      }
      json += "]";
    }
    return json + "}";
  }
};

// The rows of a call.
struct Fields {
  explicit Fields(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (const auto& [name, values] : row.columns) {
        for (const std::string& value : values) Add(name, value);
      }
      begin.push_back(fields.size());
    }
  }
  void Add(const std::string& name, const std::string& value) {
    millrace_field field = {};
    field.name = name.data();
    field.name_size = name.size();
    if (name == "price") {
      field.kind = MILLRACE_SCORE_DOUBLE;
      field.value.number = std::stod(value);
    } else if (name == "age") {
      field.kind = MILLRACE_SCORE_INT;
      field.value.integer = std::stoll(value);
    } else {
      field.kind = MILLRACE_SCORE_TEXT;
      field.value.text = {value.data(), value.size()};
    }
    fields.push_back(field);
  }
  millrace_rows view() const {
    return {.rows = begin.size() - 1, .row_begin = begin.data(), .fields = fields.data()};
  }
  std::vector<uint64_t> begin = {0};
  std::vector<millrace_field> fields;
};

// Of models with this number of factors, and of fields of an ffm.
class ScoreRows : public testing::TestWithParam<std::pair<uint32_t, uint32_t>> {
 protected:
  ScoreRows() {
    auto spec = io::ParseFeatureSpec(kSpec, "spec");
    EXPECT_TRUE(spec.ok()) << spec.status().message();
    auto plan = io::EncoderPlan::Make(*spec);
    EXPECT_TRUE(plan.ok());
    plan_ = *plan;
    io::RowFormat input = {.format = io::InputFormat::kJson};
    input.rows.features = plan_;
    input.rows.num_features = model_.num_features = spec->num_features();
    std::tie(model_.factors, model_.fields) = GetParam();
    model_.input = input;
    test::MakeModel(model_, 1, folder_ / "model");
    scorer_.emplace(folder_ / "model");
  }

  static Row RandomRow(Random& random, uint64_t share) {
    Row row;
    for (const char* name : kNames) {
      if (random.Below(10) >= share) continue;
      std::vector<std::string> values;
      for (uint64_t i = random.Below(3) + (name[0] != 't'); i > 0; --i) {
        values.push_back(std::to_string(random.Below(60)));
      }
      if (name[0] == 'p' || name[0] == 'u') values.resize(1, "7");
      row.columns.emplace_back(name, values);
    }
    return row;
  }

  std::vector<double> Expected(const std::vector<Row>& rows) {
    io::FeatureEncoder encoder(plan_, io::Labels::kOptional, /*fields=*/model_.fields > 0);
    io::BatchBuilder builder;
    builder.Clear(/*wide_rows=*/true);
    io::JsonColumns json(plan_->columns());
    for (const Row& row : rows) {
      io::FieldRow fields;
      EXPECT_TRUE(json.Read(row.Json(), fields).ok());
      const Status added = encoder.Append(fields, builder);
      EXPECT_TRUE(added.ok()) << added.message();
    }
    test::KeyRowsOf keys;
    keys.row_begin.assign(builder.batch.row_begin.begin(), builder.batch.row_begin.end());
    keys.keys.assign(builder.wide_keys.begin(), builder.wide_keys.end());
    keys.values.assign(builder.batch.values.begin(), builder.batch.values.end());
    keys.fields.assign(builder.batch.fields.begin(), builder.batch.fields.end());
    return test::ScoresOf(scorer_->get(), keys, MILLRACE_SCORE_MARGIN, &counts_);
  }

  std::vector<double> ScoresOf(const std::vector<Row>& rows) {
    const Fields fields(rows);
    const millrace_rows view = fields.view();
    std::vector<double> scores(rows.size());
    EXPECT_EQ(millrace_score_rows(scorer_->get(), &view, MILLRACE_SCORE_MARGIN, scores.data(),
                                  &found_, &error_),
              0)
        << error_.message;
    return scores;
  }

  const test::TemporaryFolder folder_;
  std::shared_ptr<const io::EncoderPlan> plan_;
  test::ModelOptions model_;
  std::optional<test::OpenScorer> scorer_;
  millrace_score_counts counts_ = {}, found_ = {};
  millrace_score_error error_ = {};
};

TEST_P(ScoreRows, FieldsAndJsonHaveTheScoresOfTheirKeys) {
  Random random(1);
  std::vector<Row> rows;
  std::string lines;
  for (int i = 0; i < 700; ++i) {
    rows.push_back(RandomRow(random, 8));
    lines += rows.back().Json() + (i % 5 == 0 ? "\n\n" : "\n");
  }
  const std::vector<double> expected = Expected(rows);
  EXPECT_EQ(ScoresOf(rows), expected);
  EXPECT_EQ(found_.keys, counts_.keys);
  EXPECT_EQ(found_.unknown_keys, counts_.unknown_keys);
  std::vector<double> scores(rows.size());
  size_t count = 0;
  ASSERT_EQ(millrace_score_json(scorer_->get(), lines.data(), lines.size(), MILLRACE_SCORE_MARGIN,
                                scores.data(), scores.size(), &count, &found_, &error_),
            0)
      << error_.message;
  EXPECT_EQ(count, rows.size());
  EXPECT_EQ(scores, expected);
}

TEST_P(ScoreRows, CandidatesHaveTheScoresOfTheJoinedRows) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Row context = RandomRow(random, 8);
    std::vector<Row> candidates, joined;
    std::string lines;
    for (uint64_t i = random.Below(seed == 7 ? 5000 : 100); i > 0; --i) {
      candidates.push_back(RandomRow(random, 4));
      Row both = candidates.back();
      for (const auto& column : context.columns) {
        const bool replaced = std::any_of(both.columns.begin(), both.columns.end(), [&](auto& c) {
          return c.first == column.first && !c.second.empty();
        });
        if (replaced) continue;
        std::erase_if(both.columns, [&](auto& c) { return c.first == column.first; });
        both.columns.push_back(column);
      }
      joined.push_back(both);
      lines += candidates.back().Json() + "\n";
    }
    const std::vector<double> expected = Expected(joined);
    const std::vector<Row> contexts = {context};
    const Fields one(contexts), many(candidates);
    const millrace_rows context_view = one.view(), view = many.view();
    std::vector<double> scores(candidates.size());
    ASSERT_EQ(millrace_score_row_candidates(scorer_->get(), &context_view, &view,
                                            MILLRACE_SCORE_MARGIN, scores.data(), &found_, &error_),
              0)
        << error_.message;
    ASSERT_EQ(scores, expected);
    EXPECT_EQ(found_.keys, counts_.keys);
    EXPECT_EQ(found_.unknown_keys, counts_.unknown_keys);
    scores.assign(candidates.size(), 0);
    size_t count = 0;
    const std::string json = context.Json();
    ASSERT_EQ(millrace_score_json_candidates(scorer_->get(), json.data(), json.size(), lines.data(),
                                             lines.size(), MILLRACE_SCORE_MARGIN, scores.data(),
                                             scores.size(), &count, &found_, &error_),
              0)
        << error_.message;
    ASSERT_EQ(scores, expected);
    // A swap to the same model keeps no state of the earlier one.
    if (seed % 20 == 0) {
      ASSERT_EQ(millrace_score_swap(scorer_->get(), (folder_ / "model").c_str(), 0, &error_), 0);
    }
  }
}

TEST_P(ScoreRows, LabelsAreIgnoredAndUnknownFieldsCounted) {
  const std::vector<Row> plain = {{{{"user", {"1"}}}}};
  const std::vector<Row> more = {{{{"clicked", {"?"}}, {"user", {"1"}}, {"usr", {"1", "2"}}}}};
  const std::vector<double> expected = ScoresOf(plain);
  EXPECT_EQ(found_.ignored_fields, 0u);
  EXPECT_EQ(ScoresOf(more), expected);
  EXPECT_EQ(found_.ignored_fields, 2u);
}

TEST_P(ScoreRows, ErrorsNameTheRow) {
  std::vector<double> scores(3);
  size_t count = 0;
  const auto error_of = [&](const std::string& lines, size_t capacity) {
    error_ = {};
    EXPECT_EQ(millrace_score_json(scorer_->get(), lines.data(), lines.size(), 0, scores.data(),
                                  capacity, &count, nullptr, &error_),
              MILLRACE_SCORE_INVALID);
    return std::string(error_.message);
  };
  EXPECT_EQ(error_of("{}\n{\"price\": \"cheap\"}", 3),
            "row 1: column 'price': expected a finite number, found 'cheap'");
  EXPECT_EQ(error_of("{}\n{}\n{}", 2), "expected at most 2 rows (capacity), found more");
  EXPECT_EQ(error_of("{}\n{\n", 3).substr(0, 7), "row 1: ");
  // A wrong value of the context is an error where it counts.
  const std::string context = R"({"price": "cheap"})";
  const std::string good = R"({"price": 1})", bad = R"({"ad": "1"})";
  const auto candidates = [&](const std::string& lines) {
    return millrace_score_json_candidates(scorer_->get(), context.data(), context.size(),
                                          lines.data(), lines.size(), 0, scores.data(),
                                          scores.size(), &count, nullptr, &error_);
  };
  EXPECT_EQ(candidates(good + "\n" + good), 0) << error_.message;
  EXPECT_EQ(candidates(good + "\n" + bad), MILLRACE_SCORE_INVALID);
  EXPECT_EQ(std::string(error_.message),
            "row 1: column 'price': expected a finite number, found 'cheap'");
}

INSTANTIATE_TEST_SUITE_P(All, ScoreRows,
                         testing::Values(std::pair(0u, 0u), std::pair(8u, 0u), std::pair(4u, 7u)));

}  // namespace
}  // namespace millrace::score
