// SPDX-License-Identifier: Apache-2.0
// The subcommands of millrace-records and the flags that they share. Each is one file: its flags,
// its CommandSpec, and a Run that receives the arguments that are not flags and returns the exit
// status.
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
DECLARE_uint64(max_record_mb);
DECLARE_string(label_feature);
DECLARE_string(index_feature);
DECLARE_string(value_feature);
DECLARE_string(features);
DECLARE_string(duckdb);

namespace millrace::records {

const tools::CommandSpec& SynthSpec();
int RunSynth(const tools::Args& args);

const tools::CommandSpec& ConvertSpec();
int RunConvert(const tools::Args& args);

const tools::CommandSpec& InferSpec();
int RunInfer(const tools::Args& args);

const tools::CommandSpec& FitSpec();
int RunFit(const tools::Args& args);

const tools::CommandSpec& CatSpec();
int RunCat(const tools::Args& args);

const tools::CommandSpec& StatSpec();
int RunStat(const tools::Args& args);

const tools::CommandSpec& VerifySpec();
int RunVerify(const tools::Args& args);

// Prints "millrace-records: message" on standard error and returns the exit status for it.
inline int Fail(const Status& status) { return tools::Fail("millrace-records", status); }

// Flags and arguments that several subcommands of millrace-records share. Name the flags in the
// CommandSpec of each subcommand that takes them.

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
