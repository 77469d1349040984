// Scores examples with a model: one number per line, in the order of the input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/queue/input_queue.h"
#include "io/record/block_reader.h"
#include "trainer/model/model.h"
#include "trainer/run/binary_metrics.h"

namespace millrace::predict {

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

}  // namespace millrace::predict
