// SPDX-License-Identifier: Apache-2.0
// What a conversion counts, and the summary that it prints.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/block_reader.h"
#include "tools/convert/format.h"
#include "tools/convert/shard_writer.h"

namespace millrace::convert {

struct ConvertTally {
  uint64_t records_in = 0;  // rows or images, good or bad
  uint64_t skipped = 0;
  std::string first_skipped;  // the reason for the first

  // For rows.
  uint64_t values = 0;
  uint64_t positives = 0;
  uint64_t weighted = 0;  // rows whose weight is not 1
  uint64_t min_key = UINT64_MAX;
  uint64_t max_key = 0;
  uint64_t num_fields = 0;    // the largest field + 1; 0: the rows have none
  uint64_t num_features = 0;  // if known in advance (hashed keys, a vocabulary); 0: max_key + 1
  uint64_t old_features = 0;  // of the vocabulary that was extended; 0: none was

  // For images: the count of each class, by label.
  std::vector<uint64_t> class_counts;

  void AddKeys(const std::vector<uint64_t>& keys) {
    values += keys.size();
    for (const uint64_t key : keys) {
      min_key = std::min(min_key, key);
      max_key = std::max(max_key, key);
    }
  }
  void AddFields(const std::vector<uint16_t>& fields) {
    for (const uint16_t field : fields) num_fields = std::max(num_fields, field + uint64_t{1});
  }
  void AddClass(size_t label) {
    if (class_counts.size() <= label) class_counts.resize(label + 1);
    ++class_counts[label];
  }

  // Returns `problem` with OnCorrupt::kFail; with kSkip, counts `records` as skipped.
  Status Skip(io::OnCorrupt on_corrupt, const Status& problem, uint64_t records = 1) {
    if (on_corrupt == io::OnCorrupt::kFail) return problem;
    if (skipped == 0) first_skipped = problem.message();
    skipped += records;
    return {};
  }
};

struct SummaryOptions {
  Format format = Format::kLibsvm;
  std::string weight_feature, field_feature;
  std::string vocabulary_out;  // empty: none was written
  double seconds = 0;
};

// Prints to standard output. `out` must be closed.
void PrintSummary(const SummaryOptions& options, const ShardWriter& out, const ConvertTally& tally);

}  // namespace millrace::convert
