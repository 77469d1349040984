// SPDX-License-Identifier: Apache-2.0
// What the commands that use a feature spec share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/features/field_row.h"
#include "io/queue/input_options.h"
#include "tools/common/flags.h"
#include "tools/common/read_rows.h"

namespace millrace::records {

using tools::ReadRows;
using tools::RowReading;
using tools::SkippedRows;

// Files, --on_corrupt, --max_record_mb and --duckdb. The format is the one that the files have.
Result<io::InputOptions> RowInput(const tools::Args& args);

// Calls `use` with the values of `columns` of each row. Prints a line if rows were left out.
Status ReadFieldRows(const RowReading& reading, const std::vector<std::string>& columns,
                     const std::function<Status(const io::FieldRow&)>& use);

// The spec --features=FILE, which must be fitted unless `may_be_open`.
Result<io::FeatureSpec> SpecFromFlags(bool may_be_open = false);

// Writes a spec for people to --out=FILE, or to standard output. A file that exists is an error
// without --overwrite.
Status CheckSpecOut();
Status WriteSpec(const io::FeatureSpec& spec);

inline void PrintSkipped(const SkippedRows& skipped) {
  tools::PrintSkipped("millrace-records", skipped);
}

}  // namespace millrace::records
