// SPDX-License-Identifier: Apache-2.0
// Reads the records of input files one by one, for work that needs more of a row than its keys.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "io/base/status.h"
#include "io/queue/input_options.h"

namespace millrace::tools {

struct RowReading {
  std::string work;  // for the progress line: "counting"
  // `files`, `format`, `on_corrupt`, `max_record_bytes` and rows.csv have an effect.
  io::InputOptions input = {};
  uint64_t rows_per_file = 0;  // 0: all
  // Of a file, no row is read after this number of bytes, decompressed; 0: no limit.
  uint64_t bytes_per_file = 0;
};

// Rows that were left out because of OnCorrupt::kSkip.
struct SkippedRows {
  uint64_t rows = 0;
  std::string first;  // why the first one was
};

// Calls `use` with each record. An error of `use` is about this record, and gets its place. After
// SIGINT or SIGTERM the reading ends with an error.
Status ReadRows(const RowReading& reading, const std::function<Status(std::string_view)>& use,
                SkippedRows& skipped);

// A line on standard error if there are any.
void PrintSkipped(const char* program, const SkippedRows& skipped);

}  // namespace millrace::tools
