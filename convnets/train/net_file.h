// SPDX-License-Identifier: Apache-2.0
// Nets in state files (io/state/state_file.h): a model, or a checkpoint with the optimizer's state.
//
// Entries are chunks of 64 floats, numbered from 0 on through all arrays: for each parameter its
// weights and then, in a checkpoint, its state. Each array begins with a chunk of its own, and its
// last one is filled up with zeros.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "io/record/output_file.h"
#include "io/state/state_fields.h"

namespace millrace::convnets {

using FloatArrays = std::vector<std::span<float>>;

// The file appears complete or not at all.
Status SaveArrays(const std::string& path, const io::StateFields& fields, const FloatArrays& arrays,
                  io::AtPath at_path);

// Reads the whole file before it changes the arrays, and returns the file's fields. An error leaves
// the arrays unchanged: a field of `expected` has another value in the file (the message names
// both), or the arrays of the file have another length.
Result<io::StateFields> LoadArrays(const std::string& path, const io::StateFields& expected,
                                   const FloatArrays& arrays);

}  // namespace millrace::convnets
