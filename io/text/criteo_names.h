// SPDX-License-Identifier: Apache-2.0
// The names of the features of a Criteo vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "io/base/status.h"

namespace millrace::io {

// Reads the vocabulary file (see criteo.h) and sets the name of each key in `names`: "C7=6fcd6dcb",
// "I1=12..13" (a range of integers), "I1=missing", "C7=other" (unseen or rare values). Keys that
// are not in the file keep their value. Holds one line of the file in memory. Returns the
// vocabulary's num_features.
Result<uint64_t> FillCriteoNames(const std::string& path,
                                 std::unordered_map<uint64_t, std::string>& names);

// The integers of a token of a column I1 to I13: "7", "12..13", "-9..-8"; the token itself if it
// has no integers.
std::string CriteoIntegerRange(uint64_t token);

}  // namespace millrace::io
