// SPDX-License-Identifier: Apache-2.0
// libsvm, libffm, VW and Criteo text to sparse Examples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/example/example_encoder.h"
#include "io/record/block_reader.h"
#include "io/text/libsvm.h"
#include "io/text/vw.h"
#include "tools/convert/format.h"
#include "tools/convert/shard_writer.h"
#include "tools/convert/summary.h"

namespace millrace::convert {

struct TextOptions {
  Format format = Format::kLibsvm;
  io::OnCorrupt on_corrupt = io::OnCorrupt::kFail;
  uint64_t max_record_bytes = io::BlockOptions{}.max_record_bytes;  // of a line
  io::FeatureNames names = {};  // `weight` is written only for rows whose weight is not 1
  // This label becomes 1 and every other label 0. Without it, 1 stays 1, 0 and -1 become 0, and any
  // other label is an error.
  std::optional<float> positive_label;
  io::LibsvmOptions libsvm = {};  // and libffm
  io::VwOptions vw = {};
  // The keys of Criteo rows come from one of these three; with both files, from the old vocabulary
  // extended by the values that are new.
  int criteo_hash_bits = 0;    // used if both names are empty
  std::string vocabulary;      // an existing vocabulary file
  std::string vocabulary_out;  // a vocabulary file to write, in a first pass over the inputs
  uint64_t min_count = 1;      // of a value in vocabulary_out
};

// Replaces `record` by the Example of a row. The weight is written if it is not 1, the fields if
// the row has them.
void EncodeRow(const io::FeatureNames& names, int64_t label, const io::SparseRow& row,
               std::string& record);

Status ConvertText(const TextOptions& options, const std::vector<std::string>& files,
                   ShardWriter& out, ConvertTally& tally);

}  // namespace millrace::convert
