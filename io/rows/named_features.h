// A feature that was named and is nowhere is a slip of the pen, not data without it.
#pragma once

#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/example/example_encoder.h"

namespace millrace::io {

// An error if value (under another name than the default) or weight (where it has a name) is in
// none of the first records of `files`, TFRecords: a record may do without either, so the decoder
// would take ones for all of them. Label and index are missed by the decoder itself, at the first
// record. Reads until it has found both: a block of the first file, as a rule, and never more than
// some hundred megabytes. Pipes are not looked into, and damage is left to the real reader.
Status CheckNamedFeatures(const std::vector<std::string>& files, const FeatureNames& names);

}  // namespace millrace::io
