// SPDX-License-Identifier: Apache-2.0
// Checks of input files before training reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/example/example_encoder.h"
#include "io/features/field_row.h"
#include "io/record/block_reader.h"

namespace millrace::io {

// An error names the first file that is missing, unreadable or a directory, which training would
// otherwise find much later. FIFOs are not opened; "-" is standard input.
Status CheckInputFiles(const std::vector<std::string>& files);
// An error names the first file that cannot be read twice, such as a FIFO: a second read would
// block on another writer. `expected` is the setting that reads the files once: "epochs = 1".
Status CheckReadableAgain(const std::vector<std::string>& files, const std::string& expected);

// Identifies files by their number, order, sizes, and first and last 4096 bytes (remote files:
// their ETag, or Last-Modified without one); paths do not matter. A query is identified by its
// text. InputPosition::digest covers what lies between.
uint64_t FingerprintOf(const std::vector<std::string>& files);

// The size of uncompressed regular or remote files; 0 for others. The first file tells the
// compression.
uint64_t PlainBytes(const std::vector<std::string>& files);

// An error if the value feature or the weight feature, under another name than the default, is in
// none of the first records of `files`, which are TFRecords: the name is probably misspelled. The
// decoder cannot detect that, because a record may lack either; it would use ones. Reads until it
// finds both, usually one block of the first file, at most some hundred megabytes.
// Pipes are not read, and corrupt records are left to the real reader.
Status CheckNamedFeatures(const std::vector<std::string>& files, const FeatureNames& names);

// The same for the columns of a feature spec, which `reader` reads: each must have a value in one
// of the first records.
Status CheckColumns(const std::vector<std::string>& files, Framing framing,
                    const std::vector<std::string>& columns, ColumnReader& reader);

}  // namespace millrace::io
