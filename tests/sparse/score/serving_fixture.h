// SPDX-License-Identifier: Apache-2.0
// Random models, as trainer::Model, whose scores are the expected ones, and as a serving model.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "io/base/random.h"
#include "io/batch/key_compactor.h"
#include "millrace/score.h"
#include "sparse/score/serving_writer.h"
#include "tests/support/random_problem.h"
#include "tests/support/test_files.h"
#include "trainer/model/model.h"

namespace millrace::test {

struct ModelOptions {
  uint64_t num_features = 1000;  // 0: any key
  uint32_t factors = 0;
  uint32_t fields = 0;  // of an ffm
  score::Layout layout = score::Layout::kDense;
  score::WeightsType type = score::WeightsType::kF32;
  std::vector<io::ValueCenter> centers = {};
  double density = 0.5;  // share of the keys that have a weight
  std::optional<io::RowFormat> input = {};
};

// Keys of a model of any key are spread over 64 bits.
inline uint64_t KeyOf(const ModelOptions& options, uint64_t number) {
  return options.num_features == 0 ? Mix64(number + 1) : number;
}
constexpr uint64_t kAnyKeyFeatures = 1000;

// Writes the serving model `path` and returns the same model for comparison.
inline trainer::Model MakeModel(const ModelOptions& options, uint64_t seed,
                                const std::string& path) {
  Random random(seed);
  trainer::ModelInfo info = {.num_features = options.num_features, .rule = "ftrl"};
  if (options.factors > 0) {
    info.factors = {.kind = sparse::ModelKind::kFm, .factors = options.factors, .init = 0.01};
  }
  if (options.fields > 0) {
    info.factors.kind = sparse::ModelKind::kFfm;
    info.factors.fields = options.fields;
  }
  info.centers = options.centers;
  info.input = options.input;
  std::map<uint64_t, std::vector<float>> entries;
  const uint64_t count = options.num_features == 0 ? kAnyKeyFeatures : options.num_features;
  for (uint64_t number = 0; number < count; ++number) {
    if (random.Uniform() >= options.density) continue;
    std::vector<float>& numbers = entries[KeyOf(options, number)];
    for (size_t i = 0; i <= info.factors.width(); ++i) numbers.push_back(Normalish(random));
  }
  const float intercept = Normalish(random);
  auto model = trainer::Model::Create(info);
  EXPECT_TRUE(model.ok());
  const auto numbers = static_cast<uint32_t>(1 + info.factors.width());
  const score::TableShape table =
      options.layout == score::Layout::kHash
          ? score::HashShape(entries.size(), numbers, options.type)
          : score::DenseShape(options.num_features, numbers, options.type);
  score::TableShape shape = table;
  shape.num_features = options.num_features;
  io::StateFields fields;
  trainer::AddModelInfo(info, fields);
  auto writer = score::ServingWriter::Create(path, shape, fields);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  for (const auto& [key, entry] : entries) {
    model->Set(key, entry[0], std::span(entry).subspan(1));
    EXPECT_TRUE(writer->Add(key, entry).ok());
  }
  model->Set(io::kInterceptKey, intercept);
  EXPECT_TRUE(writer->Add(io::kInterceptKey, {&intercept, 1}).ok());
  const Status finished = writer->Finish();
  EXPECT_TRUE(finished.ok()) << finished.message();
  return std::move(*model);
}

// Rows as callers pass them.
struct KeyRowsOf {
  std::vector<uint64_t> row_begin = {0};
  std::vector<uint64_t> keys;
  std::vector<float> values;     // empty: ones
  std::vector<uint16_t> fields;  // for an ffm

  millrace_keys view() const {
    return {.rows = row_begin.size() - 1,
            .row_begin = row_begin.data(),
            .keys = keys.data(),
            .values = values.empty() ? nullptr : values.data(),
            .fields = fields.empty() ? nullptr : fields.data()};
  }
};

// Fields in order, so that many rows have one entry for each, or of any order.
inline uint16_t FieldOf(const ModelOptions& options, size_t entry, Random& random) {
  const size_t field = random.Below(4) > 0 ? entry : random.Below(options.fields);
  return static_cast<uint16_t>(field % options.fields);
}

// Empty rows, a long row, repeated keys, keys without a weight and, below num_features, unknown
// ones.
inline KeyRowsOf RandomRows(const ModelOptions& options, uint64_t seed) {
  Random random(seed);
  KeyRowsOf rows;
  const size_t count = 1 + random.Below(100);
  const uint64_t features = options.num_features == 0 ? kAnyKeyFeatures : options.num_features;
  for (size_t r = 0; r < count; ++r) {
    size_t entries = random.Below(5) == 0 ? 0 : random.Below(60);
    if (r == 3 && seed % 4 == 0) entries = 5000;
    for (size_t i = 0; i < entries; ++i) {
      // A tenth of the keys is not in the model.
      rows.keys.push_back(KeyOf(options, random.Below(features + features / 10)));
      if (seed % 2 == 0) rows.values.push_back(r % 3 == 0 ? 1 : Normalish(random));
      if (options.fields > 0) rows.fields.push_back(FieldOf(options, i, random));
    }
    rows.row_begin.push_back(rows.keys.size());
  }
  return rows;
}

// What millrace-predict does with the rows: unknown keys are left out, then values are centered.
inline std::vector<float> ExpectedMargins(const trainer::Model& model, const KeyRowsOf& rows) {
  const uint64_t num_features = model.info().num_features;
  io::BatchBuilder builder;
  builder.Clear(io::NeedsWideKeys(num_features));
  std::vector<io::ValueCenter> centers = model.info().centers;
  for (size_t r = 0; r + 1 < rows.row_begin.size(); ++r) {
    std::vector<uint64_t> keys;
    std::vector<float> values;
    std::vector<uint16_t> fields;
    for (uint64_t i = rows.row_begin[r]; i < rows.row_begin[r + 1]; ++i) {
      if (num_features > 0 && rows.keys[i] >= num_features) continue;
      keys.push_back(rows.keys[i]);
      values.push_back(rows.values.empty() ? 1.0f : rows.values[i]);
      if (!rows.fields.empty()) fields.push_back(rows.fields[i]);
    }
    for (const io::ValueCenter& center : centers) {
      const auto found = std::find(keys.begin(), keys.end(), center.key);
      if (found != keys.end()) {
        values[static_cast<size_t>(found - keys.begin())] -= center.center;
      } else {
        keys.push_back(center.key);
        values.push_back(-center.center);
      }
    }
    builder.AddRow(0, 1, keys, values.data(), rows.fields.empty() ? nullptr : fields.data());
  }
  builder.Trim();
  io::CsrBatch& batch = builder.batch;
  io::KeyCompactor compactor(num_features);
  if (builder.wide) {
    batch.compacted = true;
    compactor.Compact(builder.wide_keys, batch.cols, batch.keys);
  }
  std::vector<float> margins(batch.rows());
  PodVector<float> scratch;
  EXPECT_TRUE(model.Margins(batch, scratch, margins).ok());
  return margins;
}

inline std::vector<double> ScoresOf(millrace_scorer* scorer, const KeyRowsOf& rows, int output,
                                    millrace_score_counts* counts = nullptr) {
  std::vector<double> scores(rows.row_begin.size() - 1);
  millrace_score_error error = {};
  const millrace_keys keys = rows.view();
  EXPECT_EQ(millrace_score_keys(scorer, &keys, output, scores.data(), counts, &error), 0)
      << error.message;
  return scores;
}

// A scorer of a file.
class OpenScorer {
 public:
  explicit OpenScorer(const std::string& path, uint32_t flags = 0) {
    millrace_score_error error = {};
    EXPECT_EQ(millrace_score_open(path.c_str(), flags, &scorer_, &error), 0) << error.message;
  }
  OpenScorer(const OpenScorer&) = delete;
  OpenScorer& operator=(const OpenScorer&) = delete;
  ~OpenScorer() { millrace_score_close(scorer_); }
  millrace_scorer* get() const { return scorer_; }

 private:
  millrace_scorer* scorer_ = nullptr;
};

}  // namespace millrace::test
