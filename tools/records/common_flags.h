// Flags and arguments that several subcommands of millrace-records share. Name the flags in the
// CommandSpec of each subcommand that takes them.
#pragma once

#include <gflags/gflags.h>

#include <string>
#include <vector>
#include "io/base/status.h"
#include "io/example/example_encoder.h"
#include "io/record/block_reader.h"

#include "io/record/record_writer.h"
#include "tools/common/flags.h"

DECLARE_string(out);
DECLARE_uint64(seed);
DECLARE_uint64(shards);
DECLARE_bool(overwrite);
DECLARE_string(compression);
DECLARE_int32(level);
DECLARE_uint64(threads);
DECLARE_string(on_corrupt);
DECLARE_string(label_feature);
DECLARE_string(index_feature);
DECLARE_string(value_feature);

namespace millrace::records {

// --compression and --level.
Result<io::WriterOptions> WriterOptionsFromFlags();

// --label_feature, --index_feature, --value_feature.
io::FeatureNames FeatureNamesFromFlags();

// --threads, with 0 as the number of cores of the machine; more than 1024 is an error.
Result<size_t> ThreadsFromFlags();

// Each argument is a file, a glob, a comma list of these, @file with a list, or - for standard
// input.
Result<std::vector<std::string>> InputFiles(const tools::Args& args);

}  // namespace millrace::records
