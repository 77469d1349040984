// SPDX-License-Identifier: Apache-2.0
// Reads rows of named columns, for the commands that use a feature spec.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/status.h"
#include "io/queue/input_options.h"
#include "tools/common/flags.h"

namespace millrace::records {

struct RowReading {
  std::string work;  // for the progress line: "counting"
  // `files`, `format`, `on_corrupt`, `max_record_bytes` and rows.csv have an effect.
  io::InputOptions input = {};
  uint64_t rows_per_file = 0;  // 0: all
};

// Rows that were left out because of --on_corrupt=skip.
struct SkippedRows {
  uint64_t rows = 0;
  std::string first;  // why the first one was
};

// Files, --on_corrupt and --max_record_mb. The format is the one that the files have.
Result<io::InputOptions> RowInput(const tools::Args& args);

// The spec --features=FILE, which must be fitted unless `may_be_open`.
Result<io::FeatureSpec> SpecFromFlags(bool may_be_open = false);

// Calls `use` with each record. An error of `use` is about this record, and gets its place. After
// SIGINT or SIGTERM the reading ends with an error.
Status ReadRows(const RowReading& reading, const std::function<Status(std::string_view)>& use,
                SkippedRows& skipped);

// Writes a spec for people to --out=FILE, or to standard output. A file that exists is an error
// without --overwrite.
Status CheckSpecOut();
Status WriteSpec(const io::FeatureSpec& spec);

// A line on standard error if there are any.
void PrintSkipped(const SkippedRows& skipped);

}  // namespace millrace::records
