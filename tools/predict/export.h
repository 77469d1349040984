// SPDX-License-Identifier: Apache-2.0
// millrace-predict export: writes a model in the form that libmillrace-score reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "io/base/status.h"
#include "sparse/score/serving_format.h"

namespace millrace::predict {

struct ExportOptions {
  std::string model;  // as LoadModel
  std::string out;
  score::WeightsType weights = score::WeightsType::kF32;
  std::optional<score::Layout> layout = {};  // none: the better one
  std::function<bool()> should_stop = {};    // true ends the work with kCancelled
};

struct ExportSummary {
  score::TableShape table;
  uint64_t features = 0;  // with a weight or factors
  uint64_t bytes = 0;
};

// The file appears complete or not at all. Reads the model twice.
Result<ExportSummary> ExportModel(const ExportOptions& options);

}  // namespace millrace::predict
