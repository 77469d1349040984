// What convert says when it is done.
#pragma once

#include <string>

#include "tools/convert/format.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/tally.h"

namespace millrace::tools {

struct SummaryOptions {
  Format format = Format::kLibsvm;
  std::string weight_feature;
  std::string vocabulary_out;  // empty: none was made
  double seconds = 0;
};

// On standard output; `out` is closed.
void PrintSummary(const SummaryOptions& options, const ShardWriter& out, const ConvertTally& tally);

}  // namespace millrace::tools
