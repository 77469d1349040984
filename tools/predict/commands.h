// SPDX-License-Identifier: Apache-2.0
// The outputs of millrace-predict: scores of examples, classes of images, and the largest weights
// of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "io/record/block_reader.h"
#include "trainer/model/model.h"
#include "trainer/model/output_buffer.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::predict {

// Scores: one number per line, in the order of the input.

enum class ScoreKind {
  kProbability,
  kMargin,
  kLabeled,  // "label,weight,margin" after a line of these names: millrace-report compares runs
};
// Accepts "probability", "margin", "labeled".
Result<ScoreKind> ScoreKindFromName(std::string_view name);

constexpr size_t kDefaultSliceValues = 20;

struct ScoreOptions {
  io::InputOptions input;
  ScoreKind kind = ScoreKind::kProbability;
  std::string out = "-";  // - is standard output; a file is written completely or not at all
  bool metrics = false;
  // ScoreSlices: fields of the feature spec, and how many values of each are reported.
  std::vector<std::string> slices = {};
  size_t slice_values = kDefaultSliceValues;
};

struct ScoreSummary {
  uint64_t rows = 0;
  io::CorruptionStats corruption;  // skipped records, which have no line
  trainer::BinaryMetrics metrics;  // if requested
  // Shares of the input that have a weight in the model, from 0 to 1; NaN if it has no entries.
  double known_keys = 0;    // of the different keys; of a sample of them if they are very many
  double known_values = 0;  // of the sum of the entries' absolute values
  std::string warning;      // about keys without a weight in the model; empty: none
};

// With `metrics`, a row without a label is an error. Known keys are those of a sample of the rows
// unless `metrics`. Scores are written as soon as no more input is waiting.
Result<ScoreSummary> Score(const trainer::Model& model, const ScoreOptions& options);

// The metrics of the rows that have a value of a field.
struct SliceMetrics {
  std::string name;  // "site=news", "age=25..35", "site=missing", "site: 7 other values"
  uint64_t rows = 0, positives = 0;
  trainer::BinaryMetrics metrics;
};

struct SliceSummary {
  uint64_t rows = 0;
  trainer::BinaryMetrics metrics;         // of all rows
  std::vector<SliceMetrics> slices = {};  // by field, the most rows first, the other values last
};

// Scores rows of named fields like Score, with metrics, in one thread. A row with several values of
// a field is in the slice of each. Up to 10,000 values of a field are told apart.
Result<SliceSummary> ScoreSlices(const trainer::Model& model, const ScoreOptions& options);

// The classes of images, by a net that millrace-convnet saved: for each image a line of its class
// (a label as in the training data) and the probability of that class, separated by a tab.

struct NetScoreOptions {
  std::string model;     // a file of kind "net"
  std::string patterns;  // of image files, see convnets::OpenImages
  std::string out = "-";
  bool metrics = false;
  size_t threads = 1;
  int64_t label_offset = 0;  // that of the model
};

struct NetSummary {
  uint64_t images = 0;
  double accuracy = 0, logloss = 0;  // only with `metrics`
};

// With `metrics`, an image without a label is an error. An error in a build without nets.
Result<NetSummary> ScoreNet(NetScoreOptions options);

// The parts of a score that come from single features.

struct ExplainOptions {
  io::InputOptions input;
  size_t count = 5;  // of features per row
  ScoreKind kind = ScoreKind::kProbability;
  std::string out = "-";
};

// For each row a line of the score and the `count` features with the largest parts of the margin
// (weight times value), separated by tabs: "age=25..35 +0.41". Features of a feature spec have
// their names, others the number of their key. With factors, the interactions of two features are
// parts as well: "age=25..35 * city=Rome +0.2".
Status WriteExplanations(const trainer::Model& model, const ExplainOptions& options);

// Appends a score and `end_char`.
void AppendScore(ScoreKind kind, float margin, char end_char, trainer::OutputBuffer& out);

// Different values of hashed fields may have the same key; the first kMaxNames are kept.
using KeyNames = std::unordered_map<uint64_t, std::vector<std::string>>;
constexpr size_t kMaxNames = 3;
// Adds the names that the rows of `input`, which has a feature spec, give to the keys of `names`.
Status FillNames(const io::InputOptions& input, KeyNames& names);

// The largest weights of a model, with the names of their features.

struct TopOptions {
  size_t count = 10;
  std::optional<io::InputOptions> input = {};  // rows whose names are shown, with a feature spec
  std::string vocabulary = {};                 // a Criteo vocabulary file; empty: no names
  std::string out = "-";
};

// Writes lines of key, weight and name (if there is a vocabulary or `input`), separated by tabs,
// the largest magnitude first. Names that share a key are separated by " | "; "?" if no row has the
// key. A vocabulary with a different num_features is an error.
Status WriteTopWeights(const trainer::Model& model, const TopOptions& options);

}  // namespace millrace::predict
