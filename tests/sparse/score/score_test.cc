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

}  // namespace
}  // namespace millrace::score
