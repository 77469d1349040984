// SPDX-License-Identifier: Apache-2.0
// The two outputs of millrace-predict: scores of examples, and the largest weights of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "io/record/block_reader.h"
#include "trainer/model/model.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::predict {

// Scores: one number per line, in the order of the input.

enum class ScoreKind { kProbability, kMargin };
// Accepts "probability", "margin".
Result<ScoreKind> ScoreKindFromName(std::string_view name);

struct ScoreOptions {
  io::InputOptions input;
  ScoreKind kind = ScoreKind::kProbability;
  std::string out = "-";  // - is standard output; a file is written completely or not at all
  bool metrics = false;
};

struct ScoreSummary {
  uint64_t rows = 0;
  io::CorruptionStats corruption;  // skipped records, which have no line
  trainer::BinaryMetrics metrics;  // if requested
  std::string warning;             // about keys without a weight in the model; empty: none
};

// With `metrics`, a row without a label is an error.
Result<ScoreSummary> Score(const trainer::Model& model, const ScoreOptions& options);

// The largest weights of a model, with the names of their features.

struct TopOptions {
  size_t count = 10;
  std::string vocabulary = {};  // a Criteo vocabulary file; empty: no names
  std::string out = "-";
};

// Writes lines of key, weight and name (if there is a vocabulary), separated by tabs, the largest
// magnitude first. A vocabulary with a different num_features is an error.
Status WriteTopWeights(const trainer::Model& model, const TopOptions& options);

}  // namespace millrace::predict
