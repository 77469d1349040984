// SPDX-License-Identifier: Apache-2.0
// Scores of the C functions against trainer::Model, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sparse/score/probability.h"
#include "tests/sparse/score/serving_fixture.h"

namespace millrace::score {
namespace {

using test::ModelOptions;

std::vector<ModelOptions> AllModels() {
  std::vector<ModelOptions> all;
  for (const uint32_t factors : {0u, 4u, 8u, 12u, 32u}) {
    all.push_back({.factors = factors});
    all.push_back({.factors = factors, .layout = Layout::kHash});
    all.push_back({.num_features = 0, .factors = factors, .layout = Layout::kHash});
    all.push_back({.factors = factors, .centers = {{3, 17.5f}, {500, -2}, {999, 1e-3f}}});
    all.push_back({.factors = factors, .layout = Layout::kHash, .centers = {{3, 17.5f}}});
  }
  for (const uint32_t fields : {1u, 5u}) {
    all.push_back({.factors = 4, .fields = fields});
    all.push_back({.factors = 8, .fields = fields, .layout = Layout::kHash});
    all.push_back({.num_features = 0, .factors = 4, .fields = fields, .layout = Layout::kHash});
  }
  all.push_back({.num_features = 1});
  all.push_back({.num_features = 1, .layout = Layout::kHash, .density = 0});
  return all;
}

TEST(Score, KeysHaveTheBitsOfTheTrainedModel) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "model";
  uint64_t seed = 0;
  for (const ModelOptions& options : AllModels()) {
    SCOPED_TRACE(seed);
    const trainer::Model model = test::MakeModel(options, ++seed, path);
    for (const uint32_t flags : {0u, uint32_t{MILLRACE_SCORE_COPY | MILLRACE_SCORE_VERIFY},
                                 uint32_t{MILLRACE_SCORE_PRELOAD}}) {
      const test::OpenScorer scorer(path, flags);
      for (uint64_t rows_seed = 0; rows_seed < 12; ++rows_seed) {
        const test::KeyRowsOf rows = test::RandomRows(options, rows_seed);
        const std::vector<float> expected = test::ExpectedMargins(model, rows);
        const auto margins = test::ScoresOf(scorer.get(), rows, MILLRACE_SCORE_MARGIN);
        const auto probabilities = test::ScoresOf(scorer.get(), rows, MILLRACE_SCORE_PROBABILITY);
        for (size_t r = 0; r < expected.size(); ++r) {
          ASSERT_EQ(margins[r], double{expected[r]}) << "row " << r << " of " << rows_seed;
          ASSERT_EQ(probabilities[r], Probability(double{expected[r]}));
        }
      }
    }
  }
}

// The context's row, and rows of it with each candidate's entries behind.
test::KeyRowsOf JoinedRows(const test::KeyRowsOf& context, const test::KeyRowsOf& candidates) {
  test::KeyRowsOf joined;
  const bool has_values = !context.values.empty() || !candidates.values.empty();
  const auto append = [&](const test::KeyRowsOf& rows, uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      joined.keys.push_back(rows.keys[i]);
      if (has_values) joined.values.push_back(rows.values.empty() ? 1 : rows.values[i]);
      if (!rows.fields.empty()) joined.fields.push_back(rows.fields[i]);
    }
  };
  for (size_t r = 0; r + 1 < candidates.row_begin.size(); ++r) {
    append(context, 0, context.keys.size());
    append(candidates, candidates.row_begin[r], candidates.row_begin[r + 1]);
    joined.row_begin.push_back(joined.keys.size());
  }
  return joined;
}

test::KeyRowsOf AsOneRow(test::KeyRowsOf rows, size_t max_keys) {
  rows.keys.resize(std::min(rows.keys.size(), max_keys));
  if (!rows.values.empty()) rows.values.resize(rows.keys.size());
  if (!rows.fields.empty()) rows.fields.resize(rows.keys.size());
  rows.row_begin = {0, rows.keys.size()};
  return rows;
}

TEST(Score, KeyCandidatesHaveTheBitsOfTheJoinedRows) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "model";
  uint64_t seed = 100;
  for (const ModelOptions& options : AllModels()) {
    SCOPED_TRACE(seed);
    test::MakeModel(options, ++seed, path);
    const test::OpenScorer scorer(path);
    for (uint64_t rows_seed = 0; rows_seed < 10; ++rows_seed) {
      // With and without values, in all combinations.
      const auto context =
          AsOneRow(test::RandomRows(options, rows_seed * 7 + rows_seed / 2), rows_seed * 5);
      const auto candidates = test::RandomRows(options, rows_seed + 1);
      const auto joined = JoinedRows(context, candidates);
      millrace_score_counts counts = {}, expected_counts = {};
      const auto expected =
          test::ScoresOf(scorer.get(), joined, MILLRACE_SCORE_MARGIN, &expected_counts);
      std::vector<double> scores(expected.size());
      millrace_score_error error = {};
      const millrace_keys one = context.view(), many = candidates.view();
      ASSERT_EQ(millrace_score_key_candidates(scorer.get(), &one, &many, MILLRACE_SCORE_MARGIN,
                                              scores.data(), &counts, &error),
                0)
          << error.message;
      ASSERT_EQ(scores, expected) << rows_seed;
      EXPECT_EQ(counts.rows, expected_counts.rows);
      EXPECT_EQ(counts.keys, expected_counts.keys);
      EXPECT_EQ(counts.unknown_keys, expected_counts.unknown_keys);
    }
  }
}

TEST(Score, WrongKeysAreErrorsThatNameTheRow) {
  const test::TemporaryFolder folder;
  test::MakeModel({}, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  double scores[2];
  millrace_score_error error = {};
  test::KeyRowsOf rows = {
      .row_begin = {0, 1, 3}, .keys = {1, 2, 3}, .values = {1, 2, 3}, .fields = {}};
  const auto error_of = [&](const test::KeyRowsOf& context, const test::KeyRowsOf& candidates) {
    error = {};
    const millrace_keys one = context.view(), many = candidates.view();
    EXPECT_EQ(millrace_score_key_candidates(scorer.get(), &one, &many, 0, scores, nullptr, &error),
              MILLRACE_SCORE_INVALID);
    return std::string(error.message);
  };
  const auto plain_error = [&](const test::KeyRowsOf& wrong) {
    error = {};
    const millrace_keys view = wrong.view();
    EXPECT_EQ(millrace_score_keys(scorer.get(), &view, 0, scores, nullptr, &error),
              MILLRACE_SCORE_INVALID);
    return std::string(error.message);
  };
  const test::KeyRowsOf context = {.row_begin = {0, 1}, .keys = {5}, .values = {1}, .fields = {}};
  test::KeyRowsOf wrong = rows;
  wrong.keys[2] = UINT64_MAX;
  const std::string key =
      "row 1: key: expected one below 18446744073709551615, which stands for "
      "the intercept";
  EXPECT_EQ(plain_error(wrong), key);
  EXPECT_EQ(error_of(context, wrong), key);
  wrong = rows;
  wrong.values[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(plain_error(wrong), "row 1: value of key 2: expected a finite number, found nan");
  EXPECT_EQ(error_of(context, wrong), "row 1: value of key 2: expected a finite number, found nan");
  wrong = rows;
  wrong.row_begin = {0, 3, 1};
  EXPECT_EQ(plain_error(wrong), "row 1: expected row_begin to ascend, found 3 and then 1");
  EXPECT_EQ(error_of(context, wrong), "row 1: expected row_begin to ascend, found 3 and then 1");
  wrong = context;
  wrong.values[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(wrong, rows), "context: value of key 5: expected a finite number, found inf");
  wrong.keys[0] = UINT64_MAX;
  EXPECT_EQ(error_of(wrong, rows).substr(0, 14), "context: key: ");
  EXPECT_EQ(error_of(rows, rows), "context: expected one row, found 2");
}

TEST(Score, ACallOfMoreKeysThanTheLimitIsAnError) {
  const test::TemporaryFolder folder;
  test::MakeModel({}, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  millrace_score_error error = {};
  double scores[3];
  const test::KeyRowsOf rows = {
      .row_begin = {0, 1, 2, 3}, .keys = {1, 2, 3}, .values = {}, .fields = {}};
  const test::KeyRowsOf context = {.row_begin = {0, 2}, .keys = {4, 5}, .values = {}, .fields = {}};
  const millrace_keys one = context.view(), many = rows.view();
  millrace_score_limit_keys(scorer.get(), 8);
  EXPECT_EQ(millrace_score_keys(scorer.get(), &many, 0, scores, nullptr, &error), 0);
  EXPECT_EQ(millrace_score_key_candidates(scorer.get(), &one, &many, 0, scores, nullptr, &error),
            MILLRACE_SCORE_INVALID);
  EXPECT_STREQ(error.message,
               "expected at most 8 keys in one call, found more: score fewer rows in a call");
  millrace_score_limit_keys(scorer.get(), 2);
  EXPECT_EQ(millrace_score_keys(scorer.get(), &many, 0, scores, nullptr, &error),
            MILLRACE_SCORE_INVALID);
  millrace_score_limit_keys(scorer.get(), 9);
  EXPECT_EQ(millrace_score_key_candidates(scorer.get(), &one, &many, 0, scores, nullptr, &error),
            0);
}

TEST(Score, AnFfmNeedsFieldsThatItHas) {
  const test::TemporaryFolder folder;
  const ModelOptions options = {.factors = 4, .fields = 3};
  test::MakeModel(options, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  test::KeyRowsOf rows = {.row_begin = {0, 1, 3}, .keys = {5, 6, 7}, .values = {}, .fields = {}};
  const auto error_of = [&] {
    double scores[2];
    millrace_score_error error = {};
    const millrace_keys keys = rows.view();
    EXPECT_EQ(millrace_score_keys(scorer.get(), &keys, 0, scores, nullptr, &error),
              MILLRACE_SCORE_INVALID);
    return std::string(error.message);
  };
  EXPECT_EQ(error_of(),
            "row 0: fields: expected the field of each key, as the model is an ffm with 4 factors "
            "for each of 3 fields, found none");
  rows.fields = {0, 2, 3};
  EXPECT_EQ(error_of(), "row 1: field of key 7: expected one below 3, found 3");
  millrace_score_info info = {};
  ASSERT_EQ(millrace_score_get_info(scorer.get(), &info, nullptr), MILLRACE_SCORE_OK);
  EXPECT_STREQ(info.kind, "ffm");
  EXPECT_EQ(info.num_factors, 4u);
  EXPECT_EQ(info.num_fields, 3u);
  millrace_score_free_info(&info);
}

TEST(Score, OneContextWithManyCandidatesHasTheBitsOfTheJoinedRowsOfAnFfm) {
  const test::TemporaryFolder folder;
  const ModelOptions options = {.factors = 4, .fields = 5};
  test::MakeModel(options, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  const test::KeyRowsOf context = {
      .row_begin = {0, 3}, .keys = {1, 20, 33}, .values = {}, .fields = {0, 1, 2}};
  const test::KeyRowsOf candidates = {
      .row_begin = {0, 2, 3}, .keys = {40, 51, 60}, .values = {1, 0.5f, 1}, .fields = {3, 4, 3}};
  const test::KeyRowsOf joined = {.row_begin = {0, 5, 9},
                                  .keys = {1, 20, 33, 40, 51, 1, 20, 33, 60},
                                  .values = {1, 1, 1, 1, 0.5f, 1, 1, 1, 1},
                                  .fields = {0, 1, 2, 3, 4, 0, 1, 2, 3}};
  const millrace_keys one = context.view(), many = candidates.view();
  double scores[2];
  ASSERT_EQ(millrace_score_key_candidates(scorer.get(), &one, &many, MILLRACE_SCORE_MARGIN, scores,
                                          nullptr, nullptr),
            MILLRACE_SCORE_OK);
  EXPECT_EQ(std::vector<double>(scores, scores + 2),
            test::ScoresOf(scorer.get(), joined, MILLRACE_SCORE_MARGIN));
}

TEST(Score, UnknownKeysAreCounted) {
  const test::TemporaryFolder folder;
  for (const Layout layout : {Layout::kDense, Layout::kHash}) {
    const ModelOptions options = {.layout = layout};
    const trainer::Model model = test::MakeModel(options, 1, folder / "model");
    const test::OpenScorer scorer(folder / "model");
    const test::KeyRowsOf rows = test::RandomRows(options, 8);
    millrace_score_counts counts = {};
    test::ScoresOf(scorer.get(), rows, MILLRACE_SCORE_MARGIN, &counts);
    uint64_t unknown = 0;
    for (const uint64_t key : rows.keys) unknown += model.Weight(key) == 0;
    EXPECT_EQ(counts.rows, rows.row_begin.size() - 1);
    EXPECT_EQ(counts.keys, rows.keys.size());
    EXPECT_EQ(counts.unknown_keys, unknown);
  }
}

// A context of many keys with many candidates takes neither the memory nor the time of all of them.
TEST(Score, AContextMultipliesKeysUpToALimit) {
  const test::TemporaryFolder folder;
  const trainer::Model model = test::MakeModel({}, 1, folder / "model");
  const test::OpenScorer scorer(folder / "model");
  const auto score = [&](size_t context_keys, size_t candidate_rows, std::string& message) {
    test::KeyRowsOf context, candidates;
    context.keys.assign(context_keys, 1);
    context.row_begin.push_back(context_keys);
    for (size_t r = 0; r < candidate_rows; ++r) {
      candidates.keys.push_back(r % 1000);
      candidates.row_begin.push_back(candidates.keys.size());
    }
    std::vector<double> scores(candidate_rows);
    millrace_score_counts counts = {};
    millrace_score_error error = {};
    const millrace_keys contexts = context.view(), rows = candidates.view();
    const int code = millrace_score_key_candidates(
        scorer.get(), &contexts, &rows, MILLRACE_SCORE_MARGIN, scores.data(), &counts, &error);
    message = error.message;
    if (code == MILLRACE_SCORE_OK) {
      EXPECT_EQ(counts.keys, (context_keys + 1) * candidate_rows);
    }
    return code;
  };
  std::string message;
  EXPECT_EQ(score(1000, 3000, message), MILLRACE_SCORE_OK);
  EXPECT_EQ(score(200000, 100000, message), MILLRACE_SCORE_INVALID);
  EXPECT_EQ(message,
            "expected at most 16777216 keys in one call, found more: score fewer rows in a call");
}

}  // namespace
}  // namespace millrace::score
